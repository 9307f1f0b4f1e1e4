"""The file that keeps how much ple's published vectors say of labels. Imports no torch."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.record import Record
from labeldp_bench.records.tables import merge_rows, read_rows, reading

Diagnosis = dict[str, Any]
"""As `learners.ple_client.diagnosis` returns it."""
COLUMNS = ["config_hash", "dataset", "loss", "seed", "guarantee", "measure", "values"]
ORDER = ["dataset", "loss", "seed", "config_hash", "measure"]


def merge_diagnoses(records: list[Record], path: Path, kept: Collection[str]) -> None:
    """Merges the diagnoses among `records` into a CSV; see `merge_rows`."""
    rows = [
        (record["config_hash"], record["dataset"], record["loss"], record["seed"], NO_GUARANTEE,
         measure, json.dumps(values, separators=(",", ":")))
        for record in records
        for measure, values in (record.get("notes") or {}).get("enhancement", {}).items()
    ]  # fmt: skip
    merge_rows(path, pd.DataFrame(rows, columns=COLUMNS), kept, ORDER)


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
