"""The file that keeps how much ple's published vectors say of labels. Imports no torch."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.record import Record
from labeldp_bench.records.tables import read_rows, reading
from labeldp_bench.support.files import write_text

Diagnosis = dict[str, Any]
"""As `learners.ple_client.diagnosis` returns it."""
COLUMNS = ["config_hash", "dataset", "loss", "seed", "guarantee", "measure", "values"]


def merge_diagnoses(records: list[Record], path: Path, kept: Collection[str]) -> None:
    """Writes the diagnoses among `records` to a CSV, each in place of an older one of its cell.

    Older ones stay where their config_hash is in `kept`; those of retired records go.
    """
    rows = [
        (record["config_hash"], record["dataset"], record["loss"], record["seed"], NO_GUARANTEE,
         measure, json.dumps(values, separators=(",", ":")))
        for record in records
        for measure, values in (record.get("notes") or {}).get("enhancement", {}).items()
    ]  # fmt: skip
    if not rows and not path.is_file():
        return
    table = pd.DataFrame(rows, columns=COLUMNS)
    if path.is_file():
        old = pd.read_csv(path, dtype={"config_hash": str}).assign(guarantee=NO_GUARANTEE)
        old = old[old.config_hash.isin(list(kept))]
        table = pd.concat([table, old]) if rows else old
    table = table.drop_duplicates(["config_hash", "measure"], keep="first")
    table = table.sort_values(["dataset", "loss", "seed", "config_hash", "measure"])
    write_text(path, table.to_csv(index=False, lineterminator="\n"))


def read_diagnoses(path: Path) -> dict[str, Diagnosis]:
    """Returns {config_hash: diagnosis}; empty without a file.

    Raises:
        InputError: the file is damaged.
    """
    if not path.is_file():
        return {}
    found: dict[str, Diagnosis] = {}
    rows = read_rows(path, ["config_hash", "measure", "values"]).to_dict("records")
    with reading(path):
        for row in rows:
            values = json.loads(str(row["values"]))
            found.setdefault(str(row["config_hash"]), {})[str(row["measure"])] = values
    return found
