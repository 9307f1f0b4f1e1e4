"""Draws docs/mechanisms_*.png from the committed records: one picture per comparison of ours.

    python scripts/draw_mechanisms.py [experiment=mechanisms/eigenmaps,mechanisms/probe]

Nothing is trained. A comparison without a record is left out.
"""

import sys
from collections.abc import Mapping
from typing import NamedTuple

from labeldp.support.validate import check_choice
from labeldp_bench.cli.script import command, read_arguments, some
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.collect import read_committed
from labeldp_bench.reports.draws import records_of
from labeldp_bench.reports.figures.small_multiples import draw_small_multiples
from labeldp_bench.reports.figures.sweep import draw_sweep
from labeldp_bench.reports.sweeps import sweep_frame
from labeldp_bench.support.checkout import CHECKOUT

DOCS = CHECKOUT / "docs"
PIXELS = {"default": "pixels", "pretrain=simclr": "SimCLR's features"}


class Message(NamedTuple):
    """What a picture is to say (docs/findings.md has the tests behind it).

    Attributes:
        title: the message; empty for a picture of dots, which is read row by row.
        variants: {what a line's name says beside its mechanism: how it is called}.
    """

    title: str = ""
    variants: Mapping[str, str] = {}


PICTURES = {
    "mechanisms/eigenmaps": Message(
        "MNIST needs eps=0.2 on SimCLR's features; on Fashion-MNIST pixels have the higher means",
        PIXELS,
    ),
    "mechanisms/probe": Message(
        "A linear probe on SimCLR's features: at eps=0.2 and 0.3 RR has the lowest means"
    ),
    "mechanisms/clusters": Message(
        "A curator names clusters at eps=0.02; local mechanisms need ten times as much", PIXELS
    ),
    "mechanisms/circle": Message(),
    "mechanisms/mnist": Message(),
}


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints what is drawn."""
    asked = read_arguments(arguments, {"experiment": ",".join(PICTURES)})["experiment"]
    records = read_committed()
    for name in some("experiment", asked):
        message = PICTURES[check_choice("experiment", name, PICTURES)]
        cells = read_experiment(name).cells()
        found = records_of(cells, records)
        path = DOCS / f"{name.replace('/', '_')}.png"
        if not found:
            print(f"{name}: no record, no picture")
            continue
        frame = sweep_frame(found)
        if message.title:
            draw_small_multiples(frame, path, message.title, message.variants)
        else:
            draw_sweep(frame, path)
        print(f"{name}: {len(found)} of {len(cells)} cells, {path.relative_to(CHECKOUT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
