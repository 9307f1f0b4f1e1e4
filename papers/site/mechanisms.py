"""The pictures docs/mechanisms_*.png: one for each comparison of mechanisms that is ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.record import Records
from labeldp_bench.reports.sweep_picture import draw_small_multiples, draw_sweep
from labeldp_bench.reports.sweeps import sweep_frame
from labeldp_bench.support.checkout import CHECKOUT
from papers.tables import records_of

DOCS = CHECKOUT / "docs"
PIXELS = {"default": "pixels", "pretrain=simclr": "SimCLR's features"}


class Message(NamedTuple):
    """What a picture is to say (docs/findings.md has the tests behind it).

    Attributes:
        title: the message; empty for a picture of dots, which is read row by row.
        variants: {text beside a line's mechanism: its name in the picture}.
    """

    title: str = ""
    variants: Mapping[str, str] = {}


PICTURES = {
    "eigenmaps": Message(
        "MNIST needs eps=0.2 on SimCLR's features; on Fashion-MNIST pixels have the higher means",
        PIXELS,
    ),
    "probe": Message(
        "A linear probe on SimCLR's features: at eps=0.2 and 0.3 RR has the lowest means"
    ),
    "clusters": Message(
        "A curator names clusters at eps=0.02; local mechanisms need ten times as much", PIXELS
    ),
    "circle": Message(),
    "mnist": Message(),
}
"""{experiment of configs/experiment/mechanisms: its message}."""


def write_pictures(records: Records, out: Path = DOCS) -> list[Path]:
    """Writes every picture that has a record; returns their paths."""
    written = []
    for name, message in PICTURES.items():
        found = records_of(read_experiment(f"mechanisms/{name}").cells(), records)
        if not found:
            continue
        frame, path = sweep_frame(found), out / f"mechanisms_{name}.png"
        if message.title:
            draw_small_multiples(frame, path, message.title, message.variants)
        else:
            draw_sweep(frame, path)
        written.append(path)
    return written
