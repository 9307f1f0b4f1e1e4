"""The picture of a sweep: lines over eps or K, a row of dots per series, or small multiples."""

import itertools
import math
from collections.abc import Mapping, Sequence
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
MOST_LINES = 6
"""More lines in one panel lie over each other: each mechanism gets a panel."""
MARKERS = "os^"
"""At most two values of x and eps=inf, of what has a budget."""
NO_BUDGET = "D"
APART = 0.22
"""Rows between the marks of two x of one series; the smaller x is higher."""
DASHES = ("--", ":")
MOST = 103.0
"""The end of an axis of percent: there is room for a whole mark at 100."""
COLUMNS = 4
VARIANTS = (plotting.BLUE, plotting.RED, plotting.GREEN, plotting.WINE, plotting.ORANGE)
"""Colours of a mechanism's lines in small multiples; the same in every panel."""
BEHIND = "#D4D4D4"
LEVELS = "none"
"""The mechanism that is drawn as levels in every panel, and has no panel of its own."""
LEVEL_NOTE = "Dotted: the same without privacy. "
BEHIND_NOTE = "Grey: the other mechanisms. "


def draw_sweep(frame: pd.DataFrame, path: Path) -> None:
    """Writes the picture of a `sweeps.sweep_frame`: a panel per data set, its runs below."""
    panels = list(frame.groupby("panel", sort=False))
    x_name = frame.x_name.iloc[0]
    as_dots = len({x for x in frame.x if math.isfinite(x)}) < FEWEST_FOR_LINES
    rows = max(points.series.nunique() for _, points in panels)
    if not as_dots and rows > MOST_LINES and frame.mechanism.nunique() > 2:
        draw_small_multiples(frame, path)
        return
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
    _label_x(axes, x_name, sorted(rows.x.dropna().unique()))
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


def draw_small_multiples(
    frame: pd.DataFrame, path: Path, title: str = "", variants: Mapping[str, str] | None = None
) -> None:
    """Writes a panel per data set and mechanism of a `sweeps.sweep_frame`, the others in grey.

    A variant, the text beside a line's mechanism, has one colour; `variants` is {variant: its name
    in the picture}.
    """
    rows = as_lines(frame)
    rest = rows.series.str.partition(", ")[2]
    rows = rows.assign(variant=rest.where(rest != "", "default"))
    mechanisms = [name for name in dict.fromkeys(rows.mechanism) if name != LEVELS]
    data_sets = list(dict.fromkeys(rows.panel))
    columns = min(COLUMNS, len(mechanisms))
    lines_each = math.ceil(len(mechanisms) / columns)
    figure, grid = plotting.new_figure(columns, lines_each * len(data_sets))
    figure.set_size_inches(2.6 * columns + 1.6, 2.4 * len(grid) + 0.9)
    present = list(dict.fromkeys(rows.variant))
    colours = dict(zip(present, itertools.cycle(VARIANTS), strict=False))
    ticks = [x for x in sorted(rows.x.dropna().unique()) if math.isfinite(x)]
    for number, data_set in enumerate(data_sets):
        part = grid[number * lines_each : (number + 1) * lines_each]
        used = list(part.flat)[: len(mechanisms)]
        own = rows[rows.panel == data_set]
        labels = [
            _draw_mechanism(axes, own, mechanism, colours)
            for axes, mechanism in zip(used, mechanisms, strict=True)
        ]
        for axes in list(part.flat)[len(mechanisms) :]:
            axes.axis("off")
        plotting.share_y(used)
        low, high = used[0].get_ylim()
        for axes in used:
            axes.set_ylim(max(0.0, low), min(MOST, high))
            _label_x(axes, frame.x_name.iloc[0], ticks)
            axes.margins(x=0.03)
        for axes in part[:, 0]:
            axes.set_ylabel(f"{data_set}\ntest accuracy, %")
        if len(present) > 1:  # colours are the same in all panels: one is labelled
            names = variants or {}
            said = [(y, names.get(v, v), colour) for y, v, colour in labels[columns - 1]]
            plotting.label_lines(used[columns - 1], said)
    notes = LEVEL_NOTE * bool((rows.mechanism == LEVELS).any())
    notes += BEHIND_NOTE * (len(mechanisms) > 1)
    plotting.title_and_caption(figure, title, notes + caption_of(frame))
    plotting.thin_ticks(figure)
    plotting.save(figure, path)


def _draw_mechanism(
    axes: Axes, rows: pd.DataFrame, mechanism: str, colours: Mapping[str, str]
) -> list[plotting.Label]:
    """Draws a mechanism's lines before those of the others; returns their labels."""
    labels: list[plotting.Label] = []
    for _, line in rows[rows.mechanism != LEVELS].groupby("series", sort=False):
        line = line[line.x.notna() & line.x.map(math.isfinite)].sort_values("x")
        if line.empty:
            continue
        if line.mechanism.iloc[0] != mechanism:
            axes.plot(line.x, line.y, color=BEHIND, linewidth=1.0, zorder=1)
            continue
        colour = colours[line.variant.iloc[0]]
        error = line.error.fillna(0)
        low, high = (line.y - error).clip(lower=0), (line.y + error).clip(upper=100)
        axes.fill_between(line.x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
        axes.plot(line.x, line.y, "o-", color=colour, zorder=3)
        labels.append((float(line.y.iloc[-1]), line.variant.iloc[0], colour))
    for _, level in rows[rows.mechanism == LEVELS].iterrows():
        colour = colours.get(level.variant, plotting.GREY)
        axes.axhline(level.y, color=colour, linestyle=":", linewidth=1.4, zorder=1)
    own = rows[rows.mechanism == mechanism]
    if len(own):
        central = ", central" * bool((own.trust == "central").any())
        settings = ", ".join(["", *filter(None, own.setting.unique())])
        axes.set_title(name_of(mechanism) + settings + central, fontsize=10)
    return labels


def _label_x(axes: Axes, x_name: str, ticks: Sequence[float]) -> None:
    """Labels the axis of x and puts a tick at each of the given values."""
    plotting.log_scale(axes, "x" * (x_name == "eps"))
    plotting.ticks_at(axes, ticks)
    axes.set_xlabel(X_LABELS[x_name])
