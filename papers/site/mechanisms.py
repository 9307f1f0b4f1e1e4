"""The pictures docs/mechanisms_*.png: one for each comparison of mechanisms that is ours."""

from pathlib import Path

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.record import Records
from labeldp_bench.reports.sweep_picture import draw_sweep
from labeldp_bench.reports.sweeps import sweep_frame
from labeldp_bench.support.checkout import CHECKOUT
from papers.tables import records_of

DOCS = CHECKOUT / "docs"


PICTURES = ("eigenmaps", "probe", "clusters", "circle", "mnist")
"""Experiments of configs/experiment/mechanisms (docs/findings.md has what they show)."""


def write_pictures(records: Records, out: Path = DOCS) -> list[Path]:
    """Writes every picture that has a record; returns their paths."""
    written = []
    for name in PICTURES:
        found = records_of(read_experiment(f"mechanisms/{name}").cells(), records)
        if found:
            written.append(out / f"mechanisms_{name}.png")
            draw_sweep(sweep_frame(found), written[-1])
    return written
