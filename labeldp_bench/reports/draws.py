"""Runs of two versions of the samplers are never averaged: the newest version counts."""

from collections.abc import Sequence

import pandas as pd

from labeldp_bench.records.record import Record, draws_of

OLDER = "older"
"""The column that counts runs which are left out; there is none without any."""


def newest(records: Sequence[Record]) -> list[Record]:
    """Returns those of one point's records that have the newest version of the samplers.

    Runs without privacy draw no noise: all of them count.
    """
    if all(record.get("mechanism") == "none" for record in records):
        return list(records)
    version = max(map(draws_of, records), default=None)
    return [record for record in records if draws_of(record) == version]


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
