"""Accuracy of the model against that of the response: each point a budget or a setting."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench import plotting
from labeldp_bench.figure_spec import Spec

OPTIONS = ("mark",)
CAPTION = "Bars: two standard errors to each side, where there are several seeds."


def draw(points: pd.DataFrame, spec: Spec) -> Figure:
    """Returns a panel per value of `panels`, a line per value of `lines`, points marked.

    The key `mark` of the YAML names the setting that stands beside a point without eps.
    """
    panels = list(points.groupby("panel", sort=False))
    figure, (all_axes,) = plotting.new_figure(len(panels), height=4.2)
    for axes, (panel, rows) in zip(all_axes, panels, strict=True):
        axes.set_title(spec.panel_title(str(panel)))
        axes.set_xlabel(spec.x.label)
        axes.set_ylabel(spec.y.label)
        _draw_panel(axes, rows.dropna(subset=["x", "y"]), spec)
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame, spec: Spec) -> None:
    for position, (_, line) in enumerate(rows.groupby("line", sort=False)):
        colour = plotting.colour_of(line.mechanism.iloc[0], position)
        line = line.sort_values("x")
        bare = "no guarantee" in line["name"].iloc[0]
        axes.errorbar(
            line.x,
            line.y,
            2 * line.error.fillna(0),
            color=colour,
            label=line["name"].iloc[0],
            linestyle="--" if bare else "-",
            marker="s" if bare else "o",
        )
        for point in line.to_dict("records"):
            axes.annotate(
                _mark(point, spec), (point["x"], point["y"]), xytext=(4, -9),
                textcoords="offset points", fontsize=7.5, color=colour,
            )  # fmt: skip
    if len(rows):
        axes.legend(loc="lower right", fontsize=8.5)


def _mark(point: dict[str, object], spec: Spec) -> str:
    """Returns what sets a point apart on its line: eps, else the setting that `mark` names."""
    record = point["records"][0]  # type: ignore[index]
    if math.isfinite(float(record["eps"])):
        return f"eps={float(record['eps']):g}"
    key = str(spec.options.get("mark", ""))
    value = record["identity"].get(key)
    name = key.rsplit(".", 1)[-1]
    return f"{name} {'default' if value is None else format(value, 'g')}" if name else ""
