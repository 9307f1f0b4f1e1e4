"""A figure of a made-up experiment, three K and four mechanisms, and its pinned records."""

import sys
from pathlib import Path

from labeldp_bench.experiments.experiment import Experiment
from papers.figures.paper import PaperFigure
from papers.figures.write import write_figure

# Accuracies that a reader can judge by eye, in percent: {mechanism: at K = 10, 40, 100}.
PINNED = {"none": (99, 88, 46), "rr": (98, 53, 5), "alibi": (99, 86, 23), "rappor": (99, 86.2, 26)}
SEM = 0.2
SHOWN = {
    "title": "Circle, eps={eps}, k={model.k}, {dataset.trials:,} trials",
    "x": {"key": "dataset.num_classes", "symbol": "K", "label": "number of classes K"},
}


def figure(statements=(), mechanisms=tuple(PINNED), **shown):
    """A figure of made-up experiment: three K, four mechanisms."""
    blocks = [
        {
            "set": {"dataset": "circle", "dataset.trials": 1000, "model.k": 9, "eps": 1},
            "grid": {"dataset.num_classes": [10, 40, 100], "mechanism": list(mechanisms)},
        }
    ]
    section = SHOWN | {"statements": list(statements)} | shown
    return PaperFigure(Experiment("made_up/figure7", blocks, None, section))


def records_of(drawn, sem=SEM / 100):
    """Records of all cells, with the accuracies pinned above."""
    records = {}
    for cell in drawn.cells:
        mechanism = cell.identity["mechanism"]
        at = (10, 40, 100).index(cell.setting("dataset.num_classes"))
        records[cell.config_hash] = {
            "accuracy": PINNED[mechanism][at] / 100, "accuracy_sem": sem,
            "bayes_accuracy": (0.995, 0.8834, 0.4701)[at], "eps": 1.0, "trust": "local",
            "private": mechanism != "none", "mechanism": mechanism,
        }  # fmt: skip
    return records


def write_pinned(out: Path) -> None:
    """Writes the pinned figure; another process must write the same bytes."""
    drawn = figure([
        {"says": "More than RR.", "where": "section 1", "check": "rappor > rr"},
        {"says": "Stable.", "where": "section 2", "check": "rappor flat within 5"},
    ])  # fmt: skip
    records = records_of(drawn)
    points = drawn.points(records)
    write_figure(drawn, points, drawn.verdicts(points, records), out)


if __name__ == "__main__":
    write_pinned(Path(sys.argv[1]))
