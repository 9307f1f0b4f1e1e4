"""Runs of two versions of the samplers are never averaged: the newest version counts."""

from collections.abc import Sequence

from labeldp_bench.records.record import Record, draws_of


def newest(records: Sequence[Record]) -> list[Record]:
    """Returns those of one point's records that have the newest version of the samplers."""
    version = max(map(draws_of, records), default=None)
    return [record for record in records if draws_of(record) == version]


def left_out(runs: int) -> list[str]:
    """Returns the line of a page that says how many older runs are left out, and why; or none."""
    if not runs:
        return []
    those = "1 older run is" if runs == 1 else f"{runs} older runs are"
    return [
        f"{those} left out: the same cell has runs of a newer version of the samplers (`draws`), "
        "and two versions are never averaged."
    ]
