"""A sweep of many lines as small panels: one mechanism in colour, the others in grey behind it."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.figures.plotting import Label
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.sweeps import X_LABELS, as_lines, caption_of

COLUMNS = 4
VARIANTS = (plotting.BLUE, plotting.RED, plotting.GREEN, plotting.WINE, plotting.ORANGE)
"""Colours of a mechanism's lines; a variant has the same one in every panel."""
BEHIND = "#D4D4D4"
LEVELS = "none"
"""The mechanism that is drawn as levels in every panel, and has no panel of its own."""
LEVEL_NOTE = "Dotted: the same without privacy. "
BEHIND_NOTE = "Grey: the other mechanisms. "


def draw_small_multiples(
    frame: pd.DataFrame, path: Path, title: str = "", variants: Mapping[str, str] | None = None
) -> None:
    """Writes the picture of a `sweeps.sweep_frame`: a panel per data set and mechanism.

    A variant, which is what a line's name says beside its mechanism, has one colour; `variants` is
    {variant: how it is called}.
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
        panels = list(grid[number * lines_each : (number + 1) * lines_each].flat)
        own = rows[rows.panel == data_set]
        labels = [
            _draw_panel(axes, own, mechanism, colours)
            for axes, mechanism in zip(panels, mechanisms, strict=False)
        ]
        for axes in panels[len(mechanisms) :]:
            axes.axis("off")
        used = panels[: len(mechanisms)]
        plotting.share_y(used)
        low, high = used[0].get_ylim()
        for axes in used:
            axes.set_ylim(max(0.0, low), min(103.0, high))
            label_x(axes, frame.x_name.iloc[0], ticks)
            axes.margins(x=0.03)
        for axes in grid[number * lines_each : (number + 1) * lines_each, 0]:
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


def _draw_panel(
    axes: Axes, rows: pd.DataFrame, mechanism: str, colours: Mapping[str, str]
) -> list[Label]:
    """Draws a mechanism's lines before those of the others; returns their labels."""
    labels: list[Label] = []
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


def label_x(axes: Axes, x_name: str, ticks: Sequence[float]) -> None:
    """Labels the axis of x of a sweep and puts a tick at each of the given values."""
    plotting.log_scale(axes, "x" * (x_name == "eps"))
    plotting.ticks_at(axes, ticks)
    axes.set_xlabel(X_LABELS[x_name])
