"""Prints what models make of the same releases on the same features, and who is ahead.

    python scripts/graph_methods.py

Subset selection on features learnt without labels, from committed records: the Gaussian process
on the graph, and its difference to each other model, by seed. A few seconds.
"""

import sys
from collections import defaultdict

import pandas as pd

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import Record
from labeldp_bench.reports.draws import average
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.rendering import difference_text, mean_text
from labeldp_bench.reports.statistics import PLUS_MINUS, Estimate, holm

OURS = "graph_gaussian_process"
LOSSES = {
    "eigenmaps": "bce", "laplace_learning": "bce", "poisson_learning": "bce", "ridge": "bce",
    "probe": "marginal",
}  # fmt: skip
"""{rival: its loss}, as its experiment has it."""
MECHANISM = "subset_selection"
Place = tuple[str, str, float]
"""Data set, features, eps."""


def estimates() -> dict[str, dict[Place, Estimate]]:
    """Returns {model: {place: accuracy in percent}} on the pre-training that all share."""
    found: dict[str, dict[Place, list[Record]]] = defaultdict(lambda: defaultdict(list))
    losses = {OURS: "bce", **LOSSES}
    for record in read_committed().values():
        model, identity = str(record["model"]), record["identity"]
        if record["mechanism"] != MECHANISM or record["loss"] != losses.get(model):
            continue
        if "pretrain.seed" in identity or "learner.retrain" in identity:
            continue
        place = str(record["dataset"]), str(record["pretrain"]), float(record["eps"])
        found[model][place].append(record)
    return {
        model: {place: average(same, "accuracy").estimate.scaled(100) for place, same in of.items()}
        for model, of in found.items()
    }


def compared(found: dict[str, dict[Place, Estimate]]) -> pd.DataFrame:
    """Returns a row per data set, features and eps; p is Holm's over a rival's column."""
    places = sorted(found.get(OURS, {}))
    frame = pd.DataFrame(places, columns=["data", "pretrain", "eps"])
    frame[name_of(OURS)] = [mean_text(found[OURS][place]) for place in places]
    for rival in LOSSES:
        theirs = [found.get(rival, {}).get(place) for place in places]
        gaps = [found[OURS][place].minus(their) if their else None
                for place, their in zip(places, theirs, strict=True)]  # fmt: skip
        corrected = iter(holm([gap.p for gap in gaps if gap]))
        frame[name_of(rival)] = [
            f"{mean_text(their)}; {difference_text(gap, next(corrected))}"
            if their and gap else ""
            for their, gap in zip(theirs, gaps, strict=True)
        ]  # fmt: skip
    return frame


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the table."""
    read_arguments(arguments, {})
    print(compared(estimates()).to_markdown(index=False))
    print(f"\nAfter a rival's mean: ours minus it. {PLUS_MINUS} p: paired by seed where seeds are "
          "shared, after Holm within a column.")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
