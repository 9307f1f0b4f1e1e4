"""What ple publishes: the mean vector of each class, and how reliable its top k is."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench import plotting
from labeldp_bench.enhancement import is_consistent
from labeldp_bench.figure_spec import Spec

OPTIONS = ("class",)
CAPTION = "Last row: filled marks where Theorem 1 applies."


def draw(points: pd.DataFrame, spec: Spec) -> Figure:
    """Returns a column per point: heat map, one class, and the degrees against k.

    The key `class` of the YAML names the class whose vectors are shown.
    """
    done = points[points.n > 0]
    figure, axes = plotting.new_figure(len(done), rows=3, height=3.4)
    for column, point in enumerate(done.to_dict("records")):
        found = point["records"][0]["enhancement"]
        axes[0][column].set_title(
            f"{spec.panel_title(point['panel'])}, {spec.x.symbol}={point['x']:g}"
        )
        _heat_map(axes[0][column], found)
        _one_class(axes[1][column], found, int(spec.options.get("class", 2)))
        _degrees(axes[2][column], found)
    return figure


def _heat_map(axes: Axes, found: dict[str, Any]) -> None:
    shown = axes.imshow(np.array(found["mean"]), cmap="viridis")
    axes.grid(visible=False)
    axes.set_xlabel("label")
    axes.set_ylabel("true class")
    axes.figure.colorbar(shown, ax=axes, shrink=0.85)


def _one_class(axes: Axes, found: dict[str, Any], number: int) -> None:
    labels = np.arange(len(found["mean"]))
    axes.set_axisbelow(True)
    if "example" in found:  # records from before it was kept have none
        axes.bar(
            labels - 0.2, found["example"][number], 0.4, label="one example", color=plotting.SKY
        )
    axes.bar(labels + 0.2, found["mean"][number], 0.4, label="mean", color=plotting.BLUE)
    axes.set_xlabel(f"label (true class {number})")
    axes.legend(fontsize=8.5)


def _degrees(axes: Axes, found: dict[str, Any]) -> None:
    k = np.arange(1, len(found["mean"]) + 1)
    pairs = list(zip(found["unreliability"], found["ambiguity"], strict=True))
    holds = np.array([is_consistent(delta, gamma) for delta, gamma in pairs])
    names = ("unreliability Delta", "ambiguity gamma")
    for values, name, colour in zip(
        zip(*pairs, strict=True), names, (plotting.RED, plotting.BLUE), strict=True
    ):
        axes.plot(k, values, color=colour, label=name)
        axes.scatter(
            k, values, s=26, color=np.where(holds, colour, "white"), edgecolors=colour, zorder=3
        )
    axes.set_xlabel("k")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(fontsize=8.5)
