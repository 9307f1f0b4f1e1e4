"""Pictures of sweeps and of attacks: what a reader of the picture alone can know."""

import math
from itertools import pairwise

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from labeldp_bench.reports import plotting
from labeldp_bench.reports.sweep_picture import draw_sweep


@pytest.fixture
def drawn(monkeypatch):
    """Figures in place of files."""
    figures = []
    monkeypatch.setattr(plotting, "save", lambda figure, path: figures.append(figure))
    yield figures
    plt.close("all")


def point(mechanism, x, accuracy, x_name="eps", **other):
    """One row of a sweep's frame."""
    return {
        "panel": "circle", "series": mechanism, "mechanism": mechanism, "x": x, "x_name": x_name,
        "accuracy": accuracy, "error": 0.01, "seeds": 2, "bayes": 0.99, "private": True,
        "trust": "local", "n_train": 300, "epochs": 1, "trials": 1, "setting": "",
    } | other  # fmt: skip


def test_every_budget_has_a_mark_of_its_own_and_the_legend_covers_no_point(drawn, tmp_path):
    # eps=inf had the mark of eps=0.5, and so had what guarantees nothing; the legend lay on rows.
    rows = [point("rr", x, 0.5, error=1.5) for x in (0.5, 1.0, math.inf)]
    free = [point("none", math.inf, 0.9), point("ple", math.inf, 0.9, private=False)]
    draw_sweep(pd.DataFrame([*rows, *free]), tmp_path / "dots.png")
    (figure,) = drawn
    (axes,) = figure.axes
    marks = [bar.lines[0].get_marker() for bar in axes.containers]
    assert len(set(marks[:3])) == 3 and set(marks[3:]).isdisjoint(marks[:3])
    (legend,) = figure.legends
    entries = zip(legend.get_lines(), legend.texts, strict=True)
    named = {line.get_marker(): text.get_text() for line, text in entries}
    assert [named[mark] for mark in marks[:3]] == ["eps=0.5", "eps=1", "eps=inf"]
    assert axes.get_legend() is None and not axes.texts
    # Intervals of two seeds made an axis from -80 to 220 percent, on which no dot could be told.
    low, high = axes.get_xlim()
    assert low >= 0 and high <= 103
    figure.draw_without_rendering()
    assert legend.get_window_extent().y0 >= axes.get_tightbbox().y1


def test_a_level_of_a_private_mechanism_says_that_it_is_of_no_bounded_budget(drawn, tmp_path):
    # A dotted line without a word in the colour of RR.
    rows = [point("rr", x, 0.1 * x) for x in (1.0, 2.0, 3.0)]
    rows += [point("rr", math.inf, 0.8), point("none", math.inf, 0.9)]
    draw_sweep(pd.DataFrame(rows), tmp_path / "lines.png")
    said = {text.get_text() for text in drawn[0].axes[0].texts}
    assert said == {"RR", "RR, eps=inf", "no privacy", "Bayes limit"}


@pytest.mark.parametrize("x_name", ["eps", "dataset.num_classes"])
def test_labels_of_ticks_never_touch(x_name, drawn, tmp_path):
    # Twelve K from 3 to 40 ran together to one number.
    values = [3, 4, 5, 6, 7, 8, 9, 10, 100, 110, 200, 1000]
    frame = pd.DataFrame([point("rr", float(x), 0.5, x_name) for x in values])
    draw_sweep(frame, tmp_path / "lines.png")
    axes = drawn[0].axes[0]
    labels = [label for label in axes.get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert labels[0].get_text() == "3" and 3 <= len(labels) < len(values)
    assert axes.get_xticks().tolist() == values
