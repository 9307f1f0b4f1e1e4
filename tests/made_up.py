"""A figure of a made-up experiment, three K and four mechanisms, and its pinned records."""

import sys
from pathlib import Path

from labeldp_bench.experiments.experiment import Experiment
from papers.checks import Statement, above, flat
from papers.figures import BANDS, Axis, PaperFigure, draw_panels, write_figure

# Accuracies that a reader can judge by eye, in percent: {mechanism: at K = 10, 40, 100}.
PINNED = {"none": (99, 88, 46), "rr": (98, 53, 5), "alibi": (99, 86, 23), "rappor": (99, 86.2, 26)}
SEM = 0.2
BLOCKS = [
    {
        "set": {"dataset": "circle", "dataset.trials": 1000, "model.k": 9, "eps": 1},
        "grid": {"dataset.num_classes": [10, 40, 100], "mechanism": list(PINNED)},
    }
]
STATEMENTS = (
    Statement("More than RR.", "section 1", "rappor > rr", lambda at: above(at, "rappor", ["rr"])),
    Statement("Stable.", "section 2", "rappor flat within 5", lambda at: flat(5, at, "rappor")),
)


def figure(blocks=BLOCKS, **changes):
    """A figure of a made-up experiment."""
    made_up = {"experiment": Experiment("made_up/figure7", blocks, None)}
    values = {
        "name": "made_up/figure7",
        "title": "Circle, eps=1",
        "x": Axis("dataset.num_classes", "K", "number of classes K"),
        "draw": draw_panels,
        "bands": BANDS,
    }
    return type("MadeUp", (PaperFigure,), made_up)(**values | changes)


def records_of(drawn, sem=SEM / 100):
    """Records of all cells, with the accuracies pinned above."""
    records = {}
    for cell in drawn.cells:
        mechanism = cell.identity["mechanism"]
        at = (10, 40, 100).index(cell.setting("dataset.num_classes"))
        records[cell.config_hash] = {
            "accuracy": PINNED[mechanism][at] / 100,
            "accuracy_sem": sem,
            "bayes_accuracy": (0.995, 0.8834, 0.4701)[at],
            "eps": 1.0,
            "trust": "local",
            "private": mechanism != "none",
            "mechanism": mechanism,
            "distribution": 1,
        }
    return records


def write_pinned(out: Path) -> None:
    """Writes the pinned figure; another process must write the same bytes."""
    drawn = figure(statements=STATEMENTS)
    write_figure(drawn, records_of(drawn), out)


if __name__ == "__main__":
    write_pinned(Path(sys.argv[1]))
