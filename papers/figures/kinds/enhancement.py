"""What ple publishes: the mean vector of each class, and how reliable its top k is."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.rendering import markdown_table
from papers.figures.kinds import Kind
from papers.figures.spec import Spec
from papers.ple.enhancement import is_consistent, sample_size

THEOREMS = """\
Conditions of the paper's theorems, {where}; no guarantee. Delta: unreliability. gamma: ambiguity,
per class ([docs](../../docs/ple.md)). n_0 of Theorem 2 for error {error:g} and failure {failure:g},
{dimension:,} weights standing in for the Natarajan dimension: as printed, and divided by the number
of swaps that its proof sums over; `-` where it does not apply, `void` where its denominator is not
positive."""


class Enhancement(Kind):
    """Mean vectors and degrees of ple, a column per point."""

    options = ("class", "theorem")
    caption = "Last row: filled marks where Theorem 1 applies."

    def draw(self, points: pd.DataFrame, spec: Spec) -> Figure:
        """Returns a column per point: heat map, one class, and the degrees against k.

        The key `class` of the YAML names the class whose vectors are shown.
        """
        done = points[points.n > 0]
        figure, axes = plotting.new_figure(len(done), rows=3, height=3.4)
        for column, point in enumerate(done.to_dict("records")):
            found = point["records"][0]["enhancement"]
            axes[0][column].set_title(_where(point, spec))
            _heat_map(axes[0][column], found)
            _one_class(axes[1][column], found, int(spec.options.get("class", 2)))
            _degrees(axes[2][column], found)
        return figure

    def notes(self, points: pd.DataFrame, spec: Spec) -> list[str]:
        """Returns Markdown: for each point, Delta and gamma against k and what the theorems say.

        The key `theorem` of the YAML has `error`, `failure`, and `weights`, {network: number}.
        """
        given = spec.options.get("theorem")
        if given is None:
            return []
        parts = []
        for point in points[points.n > 0].to_dict("records"):
            found = point["records"][0]["enhancement"]
            dimension = given["weights"][point["cell"].identity["model"]]
            numbers = {"error": given["error"], "failure": given["failure"], "dimension": dimension}
            table = markdown_table(_conditions(found, **numbers))
            parts += [THEOREMS.format(where=_where(point, spec), **numbers), table]
        return parts


KIND = Enhancement()


def _where(point: dict[str, Any], spec: Spec) -> str:
    return f"{spec.panel_title(point['panel'])}, {spec.x.symbol}={point['x']:g}"


def _conditions(
    found: dict[str, Any], error: float, failure: float, dimension: int
) -> list[dict[str, str]]:
    """Returns one row per k."""
    rows = []
    pairs = zip(found["unreliability"], found["ambiguity"], strict=True)
    for k, (delta, gamma) in enumerate(pairs, 1):
        row = {
            "k": str(k), "Delta": f"{delta:.4f}", "gamma": f"{gamma:.4f}",
            "Theorem 1": "holds" if is_consistent(delta, gamma) else "fails",
            "Delta + gamma < 1": "yes" if delta + gamma < 1 else "no",
        }  # fmt: skip
        applies = min(delta, gamma) > 0 and delta + gamma < 1
        for name, corrected in (("n_0 as printed", False), ("n_0 corrected", True)):
            size = sample_size(
                delta, gamma, error, failure, dimension, len(found["mean"]), corrected=corrected
            )
            row[name] = ("void" if size == math.inf else f"{size:.1e}") if applies else "-"
        rows.append(row)
    return rows


def _heat_map(axes: Axes, found: dict[str, Any]) -> None:
    shown = axes.imshow(np.array(found["mean"]), cmap="viridis")
    axes.grid(visible=False)
    axes.set_xlabel("label")
    axes.set_ylabel("true class")
    axes.figure.colorbar(shown, ax=axes, shrink=0.85, label="mean published value")


def _one_class(axes: Axes, found: dict[str, Any], number: int) -> None:
    labels = np.arange(len(found["mean"]))
    axes.set_axisbelow(True)
    if "example" in found:  # older records lack it
        example = found["example"][number]
        axes.bar(labels - 0.2, example, 0.4, label="one example", color=plotting.SKY)
    axes.bar(labels + 0.2, found["mean"][number], 0.4, label="mean", color=plotting.BLUE)
    axes.set_xlabel(f"label (true class {number})")
    axes.set_ylabel("published value")
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])  # room for the legend above the bars
    axes.legend(fontsize=8.5, loc="upper right", ncols=2)


def _degrees(axes: Axes, found: dict[str, Any]) -> None:
    k = np.arange(1, len(found["mean"]) + 1)
    pairs = zip(found["unreliability"], found["ambiguity"], strict=True)
    holds = np.array([is_consistent(delta, gamma) for delta, gamma in pairs])
    for key, symbol, colour in (
        ("unreliability", "Delta", plotting.RED), ("ambiguity", "gamma", plotting.BLUE)
    ):  # fmt: skip
        axes.plot(k, found[key], color=colour, label=f"{key} {symbol}")
        inside = np.where(holds, colour, "white")
        axes.scatter(k, found[key], s=26, color=inside, edgecolors=colour, zorder=3)
    axes.set_xlabel("k")
    axes.set_ylabel("degree of the top k")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(fontsize=8.5)
