"""The picture of a sweep: lines over the budget or the number of classes, or dots where few.

Imports no torch.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from labeldp_bench.cell import NO_GUARANTEE
from labeldp_bench.figures import plotting
from labeldp_bench.figures.text import counted

X_LABELS = {"eps": "privacy budget eps", "dataset.num_classes": "number of classes K"}
X_SYMBOLS = {"eps": "eps", "dataset.num_classes": "K"}
FEWEST_FOR_LINES = 3
MARKERS = "os"


def draw_sweep(frame: pd.DataFrame, path: Path) -> None:
    """Writes the picture: a panel per data set, a colour per mechanism, its runs below.

    Args:
        frame: as `tables.sweep.sweep_frame` returns it.
        path: a .png or .pdf.
    """
    panels = list(frame.groupby("panel", sort=False))
    x_name = frame.x_name.iloc[0]
    x_values = {x for x in frame.x[frame.mechanism != "none"] if math.isfinite(x)}
    as_dots = len(x_values) < FEWEST_FOR_LINES
    height = max(2.4, 1.2 + 0.3 * frame.series.nunique()) if as_dots else 3.6
    figure, (all_axes,) = plotting.new_figure(len(panels), height=height)
    for axes, (panel, points) in zip(all_axes, panels, strict=True):
        axes.set_title(str(panel))
        if as_dots:
            draw_dots(axes, points, x_name)
        else:
            draw_lines(axes, points, x_name)
    plotting.title_and_caption(figure, "", caption(frame))
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
    finite = sorted({x for x in points.x if math.isfinite(x)}) or [1.0]
    labels = []
    if points.bayes.notna().any():
        limit = points.dropna(subset="bayes").groupby("x").bayes.first() * 100
        colour = plotting.colour_of("bayes")
        axes.plot(limit.index, limit, "--", color=colour, linewidth=1.4, zorder=1)
        labels.append((limit.iloc[-1], plotting.name_of("bayes"), colour))
    lines = [line.sort_values("x") for _, line in points.groupby("series", sort=False)]
    colours = plotting.line_colours(line.mechanism.iloc[0] for line in lines)
    for line, colour in zip(lines, colours, strict=True):
        level = line[line.x.map(math.isinf)]
        line = line[~line.x.map(math.isinf)]
        if len(level):
            axes.axhline(100 * level.accuracy.iloc[0], color=colour, linestyle=":", linewidth=1.6)
        y, spread = 100 * line.accuracy, 200 * line.error.astype(float).fillna(0)
        axes.fill_between(line.x, y - spread, y + spread, color=colour, alpha=0.18, lw=0)
        axes.plot(line.x, y, "o-", color=colour)
        shown = line if len(line) else level
        labels.append((100 * float(shown.accuracy.iloc[-1]), series_name(shown), colour))
    if x_name == "eps":
        axes.set_xscale("log")
        axes.set_xticks(finite, [f"{x:g}" for x in finite])
        axes.minorticks_off()
    else:
        axes.set_xticks(finite)
    axes.margins(x=0.02)
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), min(103.0, high))  # a mark at 100 is seen in full
    axes.set_xlabel(X_LABELS.get(x_name, x_name))
    axes.set_ylabel("test accuracy, %")
    plotting.label_lines(axes, labels)


def draw_dots(axes: Axes, points: pd.DataFrame, x_name: str) -> None:
    """Draws one row per series, sorted, with a mark for each of at most two values of x."""
    x_values = sorted(set(points.x[points.mechanism != "none"])) or [math.inf]
    order = points.groupby("series", sort=False).accuracy.mean().sort_values()
    rows = {series: row for row, series in enumerate(order.index)}
    symbol = X_SYMBOLS.get(x_name, x_name)
    limits = points.dropna(subset="bayes").groupby("bayes").x.first()
    for limit, x in limits.items():
        name = plotting.name_of("bayes") + f", {symbol}={x:g}" * (len(limits) > 1)
        axes.axvline(100 * limit, linestyle="--", color=plotting.colour_of("bayes"), lw=1.2)
        # At the bottom, where the rows of least accuracy leave room beside it.
        axes.annotate(
            name, (100 * limit, -0.55), xytext=(-3, 0), textcoords="offset points", rotation=90,
            ha="right", va="bottom", fontsize=8.5,
        )  # fmt: skip
    for position, (series, line) in enumerate(points.groupby("series", sort=False)):
        colour = plotting.colour_of(line.mechanism.iloc[0], position)
        for point in line.to_dict("records"):
            x = point["x"]
            marker = MARKERS[x_values.index(x) % len(MARKERS)] if x in x_values else "D"
            axes.errorbar(
                100 * point["accuracy"], rows[series], xerr=_bar(point), fmt=marker, color=colour,
                markersize=6, capsize=0,
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), [series_name(points[points.series == s]) for s in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="x", color="#E3E3E3")
    axes.set_xlabel("test accuracy, %")
    if len(x_values) > 1:
        handles = [
            axes.plot([], [], MARKERS[i % len(MARKERS)], color="#404040", label=f"{symbol}={x:g}")[
                0
            ]
            for i, x in enumerate(x_values)
        ]
        axes.legend(handles=handles, loc="upper left", frameon=True, framealpha=0.9)


def series_name(line: pd.DataFrame) -> str:
    """Returns how a series is written for people: "no guarantee", "central" where it is so."""
    mechanism, *rest = line.series.iloc[0].split(", ")
    guarded = line.private.iloc[0] or mechanism == "none"
    marks = [] if guarded else [NO_GUARANTEE]
    if (line.trust == "central").any():
        marks.append("central")
    return ", ".join([plotting.name_of(mechanism), *rest, *marks])


def _bar(point: dict[str, Any]) -> float:
    error = point["error"]
    return 200 * error if error is not None and math.isfinite(error) else 0.0
