"""The picture of a sweep: lines over the budget or the number of classes, or dots where few.

Imports no torch.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.figures.text import counted
from labeldp_bench.reports.naming import name_of

X_LABELS = {"eps": "privacy budget eps", "dataset.num_classes": "number of classes K"}
X_SYMBOLS = {"eps": "eps", "dataset.num_classes": "K"}
FEWEST_FOR_LINES = 3
MARKERS = "os^"
NO_BUDGET = "D"
DASHES = ("--", ":")


def draw_sweep(frame: pd.DataFrame, path: Path) -> None:
    """Writes the picture: a panel per data set, a colour per mechanism, its runs below.

    Args:
        frame: as `tables.sweep.sweep_frame` returns it.
        path: a .png or .pdf.
    """
    panels = list(frame.groupby("panel", sort=False))
    x_name = frame.x_name.iloc[0]
    as_dots = len({x for x in frame.x if math.isfinite(x)}) < FEWEST_FOR_LINES
    rows = max(points.series.nunique() for _, points in panels)
    height = max(2.4, 1.4 + 0.3 * rows) if as_dots else max(3.6, 1.2 + 0.2 * rows)
    figure, (all_axes,) = plotting.new_figure(len(panels), height=height)
    marks = _marks(frame)
    for axes, (panel, points) in zip(all_axes, panels, strict=True):
        axes.set_title(str(panel))
        if as_dots:
            draw_dots(axes, points, x_name, marks)
        else:
            draw_lines(axes, points, x_name)
    plotting.title_and_caption(figure, "", caption(frame))
    if as_dots:
        _name_marks(figure, marks if len(marks) > 1 else {}, X_SYMBOLS[x_name])
    else:
        plotting.thin_ticks(figure)
    plotting.save(figure, path)


def caption(frame: pd.DataFrame) -> str:
    """Returns on how many examples, epochs, trials and seeds a sweep rests, and what bars are."""
    nouns = {"n_train": "training example", "epochs": "epoch", "trials": "trial", "seeds": "seed"}
    known = {noun: frame[key].dropna().astype(float) for key, noun in nouns.items()}
    runs = ", ".join(counted(numbers, noun) for noun, numbers in known.items() if len(numbers))
    bars = "Bands or bars: two standard errors to each side, over seeds, or over the trials of one."
    return f"{runs}. {bars if frame.error.notna().any() else 'One run a point: no error is known.'}"


def draw_lines(axes: Axes, points: pd.DataFrame, x_name: str) -> None:
    """Draws one line per series over x; what has no budget is a level."""
    finite = sorted({x for x in points.x if math.isfinite(x)})
    level = points.x.map(math.isinf)
    bounded = (level & ~is_free(points)).map({True: ", eps=inf", False: ""})
    names = points.series.map({name: series_name(of) for name, of in points.groupby("series")})
    percent = {key: 100 * points[key].astype(float) for key in ("error", "bayes")}
    rows = points.assign(
        line=points.series, name=names + bounded, x=points.x.where(~level),
        y=100 * points.accuracy, **percent,
    )  # fmt: skip
    labels = plotting.draw_lines(axes, rows)
    if x_name == "eps":
        axes.set_xscale("log")
        axes.set_xticks(finite, [f"{x:g}" for x in finite])
        axes.minorticks_off()
    else:
        axes.set_xticks(finite)
    axes.margins(x=0.02)
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), min(103.0, high))  # room for a whole mark at 100
    axes.set_xlabel(X_LABELS.get(x_name, x_name))
    axes.set_ylabel("test accuracy, %")
    plotting.label_lines(axes, labels)


def draw_dots(axes: Axes, points: pd.DataFrame, x_name: str, marks: dict[float, str]) -> None:
    """Draws one row per series, sorted, with a mark for each x, and the Bayes limits.

    Args:
        axes: one panel.
        points: its rows of the frame.
        x_name: as in the frame.
        marks: the mark of each x of what has a budget.
    """
    order = points.groupby("series", sort=False).accuracy.mean().sort_values()
    rows = {series: row for row, series in enumerate(order.index)}
    limits = points.dropna(subset="bayes").groupby("x").bayes.first()
    limits = limits[:1] if x_name == "eps" else limits
    for (x, limit), dash in zip(limits.items(), DASHES, strict=False):
        name = name_of("bayes") + f", {X_SYMBOLS[x_name]}={x:g}" * (len(limits) > 1)
        colour = plotting.colour_of("bayes")
        axes.axvline(100 * limit, linestyle=dash, color=colour, lw=1.2, label=name)
    for position, (series, line) in enumerate(points.groupby("series", sort=False)):
        colour = plotting.colour_of(line.mechanism.iloc[0], position)
        for point, free in zip(line.to_dict("records"), is_free(line), strict=True):
            axes.errorbar(
                100 * point["accuracy"], rows[series], xerr=_bar(point), color=colour,
                fmt=NO_BUDGET if free else marks[point["x"]], markersize=6, capsize=0,
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), [series_name(points[points.series == s]) for s in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="x", color="#E3E3E3")
    axes.set_xlabel("test accuracy, %")


def is_free(points: pd.DataFrame) -> pd.Series:
    """Returns which points stand at x=inf because nothing limits what they tell of a label."""
    return points.x.map(math.isinf) & ((points.mechanism == "none") | ~points.private)


def _marks(frame: pd.DataFrame) -> dict[float, str]:
    """Returns a mark for each x, at most two values and eps=inf, of what has a budget."""
    return dict(zip(sorted(set(frame.x[~is_free(frame)])), MARKERS, strict=False))


def _name_marks(figure: Figure, marks: dict[float, str], symbol: str) -> None:
    """Writes a legend above all panels, where it covers no point."""
    handles: dict[str, Any] = {
        f"{symbol}={x:g}": Line2D([], [], marker=mark, linestyle="", color="#404040")
        for x, mark in marks.items()
    }
    for axes in figure.axes:
        lines, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, lines, strict=True))
    if handles:
        figure.legend(
            handles.values(), handles.keys(), loc="outside upper left", ncols=4, frameon=False,
            fontsize=plotting.LABEL_SIZE, handlelength=1.4, columnspacing=1.2, handletextpad=0.4,
        )  # fmt: skip


def series_name(line: pd.DataFrame) -> str:
    """Returns how a series is written for people: "no guarantee", "central" where it is so."""
    mechanism, *rest = line.series.iloc[0].split(", ")
    guarded = line.private.iloc[0] or mechanism == "none"
    marks = [] if guarded else [NO_GUARANTEE]
    if (line.trust == "central").any():
        marks.append("central")
    return ", ".join([name_of(mechanism), *rest, *marks])


def _bar(point: dict[str, Any]) -> float:
    error = point["error"]
    return 200 * error if error is not None and math.isfinite(error) else 0.0
