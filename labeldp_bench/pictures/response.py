"""Accuracy of the model against that of the response: each point a budget or a setting."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench import plotting
from labeldp_bench.cell import NO_GUARANTEE
from labeldp_bench.figure_spec import Spec

OPTIONS = ("marks",)
CAPTION = "Bars: two standard errors to each side, where there are several seeds."
MATCHED = """\
At the same response accuracy, {panel}: what a private method's model reaches there, and at which
eps; interpolated between the two nearest budgets (`-`: outside of what was run). PLE has no
guarantee at any response accuracy."""


def draw(points: pd.DataFrame, spec: Spec) -> Figure:
    """Returns a panel per value of `panels` that has a record, a line per value of `lines`.

    The key `marks` of the YAML, {setting: symbol}, says what stands beside a point without eps: the
    first of them, and each other that is not at its usual value.
    """
    panels = list(points.dropna(subset=["x", "y"]).groupby("panel", sort=False))
    figure, (all_axes,) = plotting.new_figure(len(panels), height=4.4)
    shown: dict[str, Any] = {}
    for axes, (panel, rows) in zip(all_axes, panels, strict=True):
        axes.set_title(spec.panel_title(str(panel)))
        axes.set_xlabel(spec.x.label)
        axes.set_ylabel(spec.y.label)
        shown |= _draw_panel(axes, rows, spec)
    figure.legend(shown.values(), shown.keys(), loc="outside right center", fontsize=8.5)
    return figure


def notes(points: pd.DataFrame, spec: Spec) -> list[str]:
    """Returns Markdown: private methods at the response accuracies of those without a guarantee."""
    parts = []
    for panel, rows in points.dropna(subset=["x", "y"]).groupby("panel", sort=False):
        bare = rows["name"].str.contains(NO_GUARANTEE)
        lines = [line.sort_values("x") for _, line in rows[~bare].groupby("line", sort=False)]
        table = [
            {NO_GUARANTEE: f"{point['name'].partition(',')[0]}, {_mark(point, spec)}",
             spec.x.symbol: f"{point['x']:.2f}", "its accuracy": f"{point['y']:.2f}"}
            | {key: text for line in lines for key, text in _at(line, point["x"]).items()}
            for point in rows[bare].sort_values("x").to_dict("records")
        ]  # fmt: skip
        if table and lines:
            text = pd.DataFrame(table).to_markdown(index=False, disable_numparse=True)
            parts += [MATCHED.format(panel=spec.panel_title(str(panel))), text]
    return parts


def _at(line: pd.DataFrame, x: float) -> dict[str, str]:
    """Returns accuracy and eps of a line, sorted by x, where it crosses x."""
    name = line["name"].iloc[0]
    inside = line.x.min() <= x <= line.x.max()
    eps = [float(records[0]["eps"]) for records in line.records]
    accuracy = f"{np.interp(x, line.x, line.y):.2f}" if inside else "-"
    return {name: accuracy, f"{name}, eps": f"{np.interp(x, line.x, eps):.2g}" if inside else "-"}


def _draw_panel(axes: Axes, rows: pd.DataFrame, spec: Spec) -> dict[str, Any]:
    """Draws the lines of one panel; returns {name: handle}."""
    shown = {}
    middle = (rows.x.min() + rows.x.max()) / 2
    lines = [line.sort_values("x") for _, line in rows.groupby("line", sort=False)]
    colours = plotting.line_colours(line.mechanism.iloc[0] for line in lines)
    for number, (line, colour) in enumerate(zip(lines, colours, strict=True)):
        name = line["name"].iloc[0]
        bare = NO_GUARANTEE in name
        shown[name] = axes.errorbar(
            line.x, line.y, 2 * line.error.fillna(0), color=colour, marker="s" if bare else "o",
            linestyle="--" if bare else "-",
            markerfacecolor="white" if "plain" in name else colour,
        )  # fmt: skip
        for point in line.to_dict("records"):
            # Off a line that rises; those of a third line below, where the second's are above.
            above = point["x"] > middle and number < 2
            left = above and not (number and point["x"] == line.x.max())
            axes.annotate(
                _mark(point, spec), (point["x"], point["y"]), textcoords="offset points",
                xytext=(-5 if left else 5, 5 if above else -10), ha="right" if left else "left",
                fontsize=7.5, color=colour,
            )  # fmt: skip
    axes.margins(0.08)
    return shown


def _mark(point: dict[str, Any], spec: Spec) -> str:
    """Returns what sets a point apart on its line: eps, else settings that `marks` names."""
    eps = float(point["records"][0]["eps"])
    if math.isfinite(eps):
        return f"eps={eps:g}"
    first, *others = spec.options.get("marks") or {"": ""}
    keys = [first, *(key for key in others if key in point["cell"].identity)]
    values = {spec.options["marks"][key]: point["cell"].setting(key) for key in keys if key}
    return ", ".join(f"{symbol}={value:g}" for symbol, value in values.items())
