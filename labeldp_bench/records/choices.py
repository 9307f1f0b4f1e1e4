"""The file that keeps what held-out releases chose in tuned runs. Imports no torch."""

import math
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from labeldp_bench.records.record import Record
from labeldp_bench.records.tables import merge_rows, read_rows, reading

COLUMNS = [
    "config_hash", "dataset", "mechanism", "loss", "eps", "seed", "stage", "lr", "average",
    "epochs", "held_out_log_likelihood", "judges",
]  # fmt: skip
ORDER = ["dataset", "mechanism", "loss", "eps", "seed", "config_hash", "stage"]


class Chosen(NamedTuple):
    """What one stage of a tuned run was trained with.

    Attributes:
        lr: the learning rate.
        average: keep of the running mean of the weights; None: the last weights.
        epochs: how many.
    """

    lr: float
    average: float | None
    epochs: int


def merge_choices(records: list[Record], path: Path, kept: Collection[str]) -> None:
    """Merges the choices among `records` into a CSV; see `merge_rows`."""
    rows = [
        (record["config_hash"], record["dataset"], record["mechanism"], record["loss"],
         float(record["eps"]), record["seed"], stage, choice["lr"], choice["average"],
         choice["epochs"], choice["held_out_log_likelihood"],
         choice.get("judges", math.nan))
        for record in records
        for key, choice in (record.get("notes") or {}).items()
        if (stage := _stage_of(key))
    ]  # fmt: skip
    merge_rows(path, pd.DataFrame(rows, columns=COLUMNS), kept, ORDER)


def read_choices(path: Path) -> dict[str, list[Chosen]]:
    """Returns {config_hash: the choice of each stage}; empty without a file.

    Raises:
        InputError: the file is damaged.
    """
    if not path.is_file():
        return {}
    found: dict[str, list[Chosen]] = {}
    numbers = ["stage", "lr", "average", "epochs"]
    rows = read_rows(path, ["config_hash", "stage", "lr", "epochs"], numbers)
    with reading(path):
        for row in rows.sort_values(["config_hash", "stage"]).to_dict("records"):
            average = float(row["average"])
            keep = None if math.isnan(average) else average
            chosen = Chosen(float(row["lr"]), keep, int(row["epochs"]))
            found.setdefault(str(row["config_hash"]), []).append(chosen)
    return found


def _stage_of(key: str) -> int:
    """Returns the stage, from 1, whose chosen recipe a run's note of this name holds; 0: none."""
    if key == "tuned":
        return 1
    number = key.removeprefix("tuned_stage_")
    return int(number) if number != key else 0
