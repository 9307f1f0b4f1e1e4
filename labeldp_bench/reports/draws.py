"""Runs of two versions of the samplers are never averaged: the newest version counts."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.records.record import Record, Records, draws_of
from labeldp_bench.reports.statistics import SeedsEstimate, from_seeds

OLDER = "older"
"""The column that counts runs which are left out; there is none without any."""
ONE_BEST_LABEL = ("none", "rr", "lp_1st", "lp_1st_star", "alibi", "ple")
"""Mechanisms whose release always fits one label best."""


def records_of(cells: Iterable[Cell], records: Records) -> list[Record]:
    """Returns the records of those cells that are done: exactly its own identity fills a cell."""
    return [records[cell.config_hash] for cell in cells if cell.config_hash in records]


def newest(records: Sequence[Record]) -> list[Record]:
    """Returns those of one point's records that have the newest version of the samplers.

    Runs without privacy draw no noise: all of them count.
    """
    if all(record.get("mechanism") == "none" for record in records):
        return list(records)
    version = max(map(draws_of, records), default=None)
    return [record for record in records if draws_of(record) == version]


class Average(NamedTuple):
    """A point of several seeds.

    Attributes:
        kept: the records that count.
        estimate: mean of their scores with its error over seeds; of one record, over its trials.
        older: how many records are left out.
    """

    kept: list[Record]
    estimate: SeedsEstimate
    older: int


def average(records: Sequence[Record], score: str) -> Average:
    """Returns the average of a field of records that differ in the seed alone."""
    kept = newest(records)
    seeds = {
        int(record.get("seed", place)): value
        for place, record in enumerate(kept)
        if (value := score_of(record, score)) is not None
    }
    estimate = from_seeds(seeds)
    if len(kept) == 1 and kept[0].get(f"{score}_sem") is not None:
        trials = kept[0].get("trials") or math.inf
        error = float(kept[0][f"{score}_sem"])
        estimate = SeedsEstimate(estimate.value, error, trials - 1, seeds)
    return Average(kept, estimate, len(records) - len(kept))


def score_of(record: Record, score: str) -> float | None:
    """Returns a field of a record; None where it is not known.

    `response_accuracy` is how often the first choice of a release is the true label. Older records
    lack it. They have `released_agreement`, which counts a release that fits m labels equally well
    as 1/m. Both are equal where one label always fits best: there the older field is used.
    """
    value = record.get(score)
    if value is None and score == "response_accuracy" and record["mechanism"] in ONE_BEST_LABEL:
        value = record.get("released_agreement")
    return None if value is None else float(value)


def without_zeros(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows without the column `OLDER` if nothing is left out."""
    return rows if rows[OLDER].any() else rows.drop(columns=OLDER)


def left_out(rows: pd.DataFrame) -> list[str]:
    """Returns the line of a page that says how many older runs are left out, and why; or none."""
    runs = int(rows[OLDER].sum()) if OLDER in rows else 0
    if not runs:
        return []
    those = "1 older run is" if runs == 1 else f"{runs} older runs are"
    return [
        f"{those} left out: the same cell has runs of a newer version of the samplers (`draws`), "
        "and two versions are never averaged."
    ]
