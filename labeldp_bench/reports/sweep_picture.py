"""The picture of a sweep: lines over eps or K, or a row of dots per series."""

import math
from pathlib import Path

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.sweeps import X_LABELS, as_lines, caption_of, is_free

SYMBOLS = {"eps": "eps", "dataset.num_classes": "K"}
FEWEST_FOR_LINES = 3
MARKERS = "os^"
"""At most two values of x and eps=inf, of what has a budget."""
NO_BUDGET = "D"
APART = 0.22
"""Rows between the marks of two x of one series; the smaller x is higher."""
DASHES = ("--", ":")
MOST = 103.0
"""The end of an axis of percent: there is room for a whole mark at 100."""


def draw_sweep(frame: pd.DataFrame, path: Path) -> None:
    """Writes the picture of a `sweeps.sweep_frame`: a panel per data set, its runs below."""
    panels = list(frame.groupby("panel", sort=False))
    x_name = frame.x_name.iloc[0]
    as_dots = len({x for x in frame.x if math.isfinite(x)}) < FEWEST_FOR_LINES
    rows = max(points.series.nunique() for _, points in panels)
    height = max(2.4, 1.4 + 0.3 * rows) if as_dots else max(3.6, 1.2 + 0.2 * rows)
    figure, (all_axes,) = plotting.new_figure(len(panels), height=height)
    marks = dict(zip(sorted(set(frame.x[~is_free(frame)])), MARKERS, strict=False))
    for axes, (panel, points) in zip(all_axes, panels, strict=True):
        axes.set_title(str(panel))
        if as_dots:
            _draw_dots(axes, as_lines(points), SYMBOLS[x_name], marks)
        else:
            _draw_lines(axes, as_lines(points), x_name)
    plotting.title_and_caption(figure, "", caption_of(frame))
    if not as_dots:
        plotting.thin_ticks(figure)
        plotting.save(figure, path)
        return
    handles: dict[str, Artist] = {
        f"{SYMBOLS[x_name]}={x:g}": Line2D([], [], marker=mark, linestyle="", color="#404040")
        for x, mark in marks.items()
        if len(marks) > 1
    }
    handles |= plotting.legend_of(figure.axes)
    if handles:  # above all panels, where it covers no point
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside upper left",
            ncols=4,
            frameon=False,
            fontsize=plotting.LABEL_SIZE,
            handlelength=1.4,
            columnspacing=1.2,
            handletextpad=0.4,
        )
    plotting.save(figure, path)


def _draw_lines(axes: Axes, rows: pd.DataFrame, x_name: str) -> None:
    """Draws one line per series over x; a point without a budget, or at eps=inf, is a level."""
    unbounded = rows.x.map(math.isinf)
    rows = rows.assign(
        name=rows.name + unbounded.map({True: ", eps=inf", False: ""}),
        x=rows.x.where(~unbounded),
    )
    labels = plotting.draw_lines(axes, rows)
    plotting.log_scale(axes, "x" * (x_name == "eps"))
    plotting.ticks_at(axes, sorted(rows.x.dropna().unique()))
    axes.set_xlabel(X_LABELS[x_name])
    axes.margins(x=0.02)
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), min(MOST, high))
    axes.set_ylabel("test accuracy, %")
    plotting.label_lines(axes, labels)


def _draw_dots(axes: Axes, rows: pd.DataFrame, symbol: str, marks: dict[float, str]) -> None:
    """Draws one row per series, sorted, with a mark for each x, and the Bayes limits."""
    order = rows.groupby("line", sort=False).accuracy.mean().sort_values()
    heights = {line: height for height, line in enumerate(order.index)}
    limits = rows.fillna({"x": math.inf}).dropna(subset="bayes").groupby("x").bayes.first()
    limits = limits[:1] if symbol == "eps" else limits
    for (x, limit), dash in zip(limits.items(), DASHES, strict=False):
        name = name_of("bayes") + f", {symbol}={x:g}" * (len(limits) > 1)
        colour = plotting.colour_of("bayes")
        axes.axvline(limit, linestyle=dash, color=colour, lw=1.2, label=name)
    # Intervals of several x would lie over each other.
    aside = {x: APART * ((len(marks) - 1) / 2 - number) for number, x in enumerate(marks)}
    for position, (series, line) in enumerate(rows.groupby("line", sort=False)):
        colour = plotting.colour_of(line.mechanism.iloc[0], position)
        for x, y, error in zip(line.x, line.y, line.error.fillna(0), strict=True):
            mark = NO_BUDGET if math.isnan(x) else marks[x]
            height = heights[series] + aside.get(x, 0.0)
            axes.errorbar(y, height, xerr=error, color=colour, fmt=mark, markersize=6, capsize=0)
    names = dict(zip(rows.line, rows.name, strict=True))
    axes.set_yticks(range(len(heights)), [names[line] for line in heights])
    axes.set_ylim(-0.7, len(heights) - 0.3)
    low, high = axes.get_xlim()  # two seeds have intervals that go beyond what accuracies can be
    axes.set_xlim(max(0.0, low), min(MOST, high))
    axes.grid(axis="x", color="#E3E3E3")
    axes.set_xlabel("test accuracy, %")
