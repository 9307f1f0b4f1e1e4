"""Accuracy of the model against that of the response: each point a budget or a setting."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.reports import plotting
from labeldp_bench.reports.rendering import markdown_table
from papers.figures import PaperFigure

MATCHED = """\
At the same response accuracy, {panel}: what a private method's model reaches there, and at which
eps; interpolated between the two nearest budgets (`-`: outside of what was run). PLE has no
guarantee at any response accuracy."""

HEIGHTS = (-6, 7, 0, -15, 16, -24, 25, -33, 34, -42, 43)
"""Heights of a text above its mark that are tried, in points: the nearest first."""
SIDES = {1: "left", -1: "right"}
"""Sides of its mark on which a text may be, and its alignment there."""
ROOM = 0.27
"""Of the width of a panel, to the right of its points: the longest text fits there."""
NEAR = 10
"""In points: a text further off is joined to its mark by a thin line."""

PRINTED_AS = "printed response accuracy"

UNKNOWN = "No mark: {names}, whose records do not hold the {x}."


def with_printed_reading(points: pd.DataFrame) -> pd.DataFrame:
    """Returns the points, and those of LP-2ST at the response accuracy that the paper gives it.

    That is RR's, e^eps / (e^eps + K - 1) (section 5.2), whatever the prior of a row rules out.
    """
    again = points[points.mechanism == "lp_2st"].copy()
    for row, cell in again.cell.items():
        odds = math.exp(cell.setting("mechanism.eps"))
        again.loc[row, "x"] = 100 * odds / (odds + cell.config["dataset"]["num_classes"] - 1)
    again["line"] += f", {PRINTED_AS}"
    again["name"] += f", {PRINTED_AS}"
    return pd.concat([points, again], ignore_index=True) if len(again) else points


def draw_response(points: pd.DataFrame, figure: PaperFigure, *, joined: bool = True) -> Figure:
    """Returns points with their budgets or settings written at them, one panel next to the other.

    Args:
        points: of the figure; what is not done is left out.
        figure: its `marks`, {setting: symbol}, are the text at a point without eps: the first
            of them, and each other that is not at its usual value.
        joined: whether a line joins the points, which is wrong where several settings change from
            one to the next.
    """
    points = with_printed_reading(points)
    panels = list(points.dropna(subset=["x", "y"]).groupby("panel", sort=False))
    drawn, (all_axes,) = plotting.new_figure(len(panels), height=4.4)
    shown: dict[str, Any] = {}
    for axes, (panel, rows) in zip(all_axes, panels, strict=True):
        axes.set_title(figure.panel_title(str(panel)))
        axes.set_xlabel(figure.x.label)
        axes.set_ylabel(figure.y.label)
        shown |= _draw_lines(axes, rows, joined)
    drawn.legend(shown.values(), shown.keys(), loc="outside right center", fontsize=8.5)
    drawn.draw_without_rendering()  # the legend makes panels narrower, and not texts
    for axes, (_, rows) in zip(all_axes, panels, strict=True):
        _write_marks(axes, rows, figure, joined)
    return drawn


def matched(points: pd.DataFrame, figure: PaperFigure) -> list[str]:
    """Returns what private methods reach at the response accuracies of PLE, Markdown."""
    unknown = points[points.x.isna() & points.y.notna()]
    names = ", ".join(unknown["name"].unique())
    parts = [UNKNOWN.format(names=names, x=figure.x.symbol)] if names else []
    points = with_printed_reading(points)
    for panel, rows in points.dropna(subset=["x", "y"]).groupby("panel", sort=False):
        bare = rows["name"].str.contains(NO_GUARANTEE)
        private = rows[~bare & (rows.mechanism != "none")]
        lines = [line.sort_values("x") for _, line in private.groupby("line", sort=False)]
        table = [
            {
                NO_GUARANTEE: f"{point['name'].partition(',')[0]}, {_mark(point, figure)}",
                figure.x.symbol: f"{point['x']:.2f}",
                "its accuracy": f"{point['y']:.2f}",
            }
            | {key: text for line in lines for key, text in _at(line, point["x"]).items()}
            for point in rows[bare].sort_values("x").to_dict("records")
        ]
        if table and lines:
            title = figure.panel_title(str(panel))
            parts += [MATCHED.format(panel=title), markdown_table(table)]
    return parts


def _at(line: pd.DataFrame, x: float) -> dict[str, str]:
    """Returns accuracy and eps of a line, sorted by x, where it crosses x."""
    name = line["name"].iloc[0]
    inside = line.x.min() <= x <= line.x.max()
    eps = [float(records[0]["eps"]) for records in line.records]
    accuracy = f"{np.interp(x, line.x, line.y):.2f}" if inside else "-"
    return {name: accuracy, f"{name}, eps": f"{np.interp(x, line.x, eps):.2g}" if inside else "-"}


def _draw_lines(axes: Axes, rows: pd.DataFrame, joined: bool) -> dict[str, Any]:
    """Draws the lines of one panel; returns {name: handle}."""
    shown = {}
    for line, colour in plotting.coloured_lines(rows):
        name = line["name"].iloc[0]
        bare = NO_GUARANTEE in name
        shown[name] = axes.errorbar(
            line.x,
            line.y,
            line.error.fillna(0),
            color=colour,
            marker="s" if bare else "o",
            linestyle=joined * ("--" if bare else "-"),
            markerfacecolor="white" if "plain" in name else colour,
        )
    axes.margins(0.08)
    axes.autoscale_view()
    left, right = axes.get_xlim()
    axes.set_xlim(left, right + ROOM * (right - left))
    return shown


def _write_marks(axes: Axes, rows: pd.DataFrame, figure: PaperFigure, joined: bool) -> None:
    """Writes each point's text next to it, where it overlaps least; the layout must be final.

    A text over a text cannot be read, nor one beyond the panel; one over a line can.
    """
    lines, renderer = plotting.coloured_lines(rows), RendererAgg(1, 1, axes.figure.dpi)
    drawn = [box for line, _ in lines for box in _on_line(axes, line, joined)]
    written: list[Bbox] = []
    line_to_mark: Any = {"arrowstyle": "-", "color": plotting.GREY, "lw": 0.6, "shrinkA": 0}
    for line, colour in lines:
        style: Any = {"fontsize": 7.5, "color": colour, "va": "center", "arrowprops": line_to_mark}
        for point in line.to_dict("records"):
            place, text = (point["x"], point["y"]), _mark(point, figure)
            mark = axes.annotate(text, place, (0, 0), textcoords="offset points", **style)
            mark.set_in_layout(False)  # else each text moves the panels that others are placed in
            tried = []
            for up, side in itertools.product(HEIGHTS, SIDES):
                right = side * (5 if up else 8)  # at the height of its mark a text is beyond it
                mark.set(position=(right, up), ha=SIDES[side])
                mark.update_positions(renderer)
                box = Text.get_window_extent(mark)  # of the text without its line
                outside = (box.x1 > axes.bbox.x1) + (box.x0 < axes.bbox.x0)
                outside += (box.y1 > axes.bbox.y1) + box.count_overlaps(written)
                tried.append((box.count_overlaps(drawn) + 10 * outside, abs(up), right, up, box))
            _, _, right, up, box = min(tried, key=lambda each: each[:2])
            mark.set(position=(right, up), ha=SIDES[1 if right > 0 else -1])
            assert mark.arrow_patch is not None
            mark.arrow_patch.set_visible(abs(up) > NEAR)  # a text far off is led to its mark
            written.append(box.expanded(1, 1.3))  # the caption comes later, and lowers the panel


def _on_line(axes: Axes, line: pd.DataFrame, joined: bool) -> list[Bbox]:
    """Returns boxes along a line, in pixels: a larger one at each marker."""
    corners = axes.transData.transform(line[["x", "y"]].to_numpy())
    boxes = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in corners]
    for start, end in itertools.pairwise(corners) if joined else ():
        for share in np.linspace(0, 1, 12)[1:-1]:
            x, y = start + share * (end - start)
            boxes.append(Bbox.from_bounds(x - 1, y - 1, 2, 2))
    return boxes


def _mark(point: dict[str, Any], figure: PaperFigure) -> str:
    """Returns the text at a point: its eps, or else the settings that `marks` names.

    No privacy has neither: its name says all.
    """
    eps = float(point["records"][0]["eps"])
    if math.isfinite(eps):
        return f"eps={eps:g}"
    cell = point["cell"]
    return ", ".join(
        f"{symbol}={cell.setting(key):g}"
        for place, (key, symbol) in enumerate(figure.marks.items())
        if cell.has(key) and (place == 0 or key in cell.identity)
    )
