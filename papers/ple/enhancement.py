"""What PLE publishes: mean vectors, how reliable their top k is, conditions of its theorems."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.reports import plotting
from labeldp_bench.reports.rendering import markdown_table
from papers.figures import PaperFigure

THEOREMS = """\
Conditions of the paper's theorems, {where}; no guarantee. Delta: unreliability. gamma: ambiguity,
per class ([docs](../../docs/ple.md)). n_0 of Theorem 2 for error {error:g} and failure {failure:g},
{dimension:,} weights standing in for the Natarajan dimension: as printed, and divided by the number
of swaps that its proof sums over; `-` where it does not apply, `void` where its denominator is not
positive."""


ERROR, FAILURE = 0.1, 0.05
"""Of Theorem 2; ours."""
WEIGHTS = {"cnn": 421_642, "wrn28_2": 1_467_610, "resnet18_w16": 701_466}
SHOWN = 2
"""The class of the second row: birds in CIFAR-10, as in the paper's Figure 1."""


def is_consistent(unreliability: float, ambiguity: float) -> bool:
    """Returns whether Theorem 1 of ple applies: gamma < 1 - Delta / (1 - Delta).

    >>> is_consistent(0.2, 0.3), is_consistent(0.2, 0.8)
    (True, False)
    """
    return unreliability < 1 and ambiguity < 1 - unreliability / (1 - unreliability)


def sample_size(
    unreliability: float,
    ambiguity: float,
    error: float,
    confidence: float,
    dimension: float,
    num_classes: int,
    *,
    corrected: bool,
) -> float:
    """Returns n_0 of Theorem 2 of ple; infinity where it does not apply, or is void.

    It is void where its denominator is not positive. The printed proof sums over 2^n swaps and
    forgets to divide by their number, which its own Lemma 2 does: (2 - 2 Delta)^n should be
    (1 - Delta)^n.

    >>> sizes = [sample_size(0.2, 0.3, 1.0, 0.1, 9, 10, corrected=each) for each in (False, True)]
    >>> [round(size) for size in sizes if size < math.inf]
    [384]

    Args:
        unreliability: Delta > 0.
        ambiguity: gamma > 0, below 1 - Delta.
        error: epsilon, the error that is allowed.
        confidence: delta, the probability of failure.
        dimension: Natarajan dimension of the hypotheses.
        num_classes: L.
        corrected: divide by the number of swaps.
    """
    if min(unreliability, ambiguity) <= 0 or unreliability + ambiguity >= 1:
        return math.inf
    theta = math.log(2 * (1 - unreliability) / (1 - unreliability + ambiguity))
    swaps = 1.0 if corrected else 2.0
    rate = theta * error / 2 - math.log(swaps * (1 - unreliability))
    if rate <= 0:
        return math.inf
    size = math.log(2 * dimension) - math.log(rate) + 2 * math.log(num_classes)
    return 2 / rate * (dimension * size - math.log(confidence) + 1)


def draw_enhancement(points: pd.DataFrame, figure: PaperFigure) -> Figure:
    """Returns a column per point: heat map, one class, and the degrees against k."""
    done = points[points.n > 0]
    drawn, axes = plotting.new_figure(len(done), rows=3, height=3.4)
    for column, point in enumerate(done.to_dict("records")):
        found = point["records"][0]["enhancement"]
        axes[0][column].set_title(_where(point, figure))
        _heat_map(axes[0][column], found)
        _one_class(axes[1][column], found)
        _degrees(axes[2][column], found)
    return drawn


def conditions(points: pd.DataFrame, figure: PaperFigure) -> list[str]:
    """Returns for each point Delta and gamma against k and what the theorems say, Markdown."""
    parts = []
    for point in points[points.n > 0].to_dict("records"):
        dimension = WEIGHTS[point["cell"].identity["model"]]
        numbers = {"error": ERROR, "failure": FAILURE, "dimension": dimension}
        said = THEOREMS.format(where=_where(point, figure), **numbers)
        parts += [said, markdown_table(_conditions(point["records"][0]["enhancement"], dimension))]
    return parts


def _where(point: dict[str, Any], figure: PaperFigure) -> str:
    return f"{figure.panel_title(point['panel'])}, {figure.x.symbol}={point['x']:g}"


def _conditions(found: dict[str, Any], dimension: int) -> list[dict[str, str]]:
    """Returns one row per k."""
    rows = []
    pairs = zip(found["unreliability"], found["ambiguity"], strict=True)
    for k, (delta, gamma) in enumerate(pairs, 1):
        row = {
            "k": str(k),
            "Delta": f"{delta:.4f}",
            "gamma": f"{gamma:.4f}",
            "Theorem 1": "holds" if is_consistent(delta, gamma) else "fails",
            "Delta + gamma < 1": "yes" if delta + gamma < 1 else "no",
        }
        applies = min(delta, gamma) > 0 and delta + gamma < 1
        for name, corrected in (("n_0 as printed", False), ("n_0 corrected", True)):
            size = sample_size(
                delta, gamma, ERROR, FAILURE, dimension, len(found["mean"]), corrected=corrected
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


def _one_class(axes: Axes, found: dict[str, Any]) -> None:
    labels = np.arange(len(found["mean"]))
    axes.set_axisbelow(True)
    example = found["example"][SHOWN]
    axes.bar(labels - 0.2, example, 0.4, label="one example", color=plotting.SKY)
    axes.bar(labels + 0.2, found["mean"][SHOWN], 0.4, label="mean", color=plotting.BLUE)
    axes.set_xlabel(f"label (true class {SHOWN})")
    axes.set_ylabel("published value")
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])  # room for the legend above the bars
    axes.legend(fontsize=8.5, loc="upper right", ncols=2)


def _degrees(axes: Axes, found: dict[str, Any]) -> None:
    k = np.arange(1, len(found["mean"]) + 1)
    pairs = zip(found["unreliability"], found["ambiguity"], strict=True)
    holds = np.array([is_consistent(delta, gamma) for delta, gamma in pairs])
    for key, symbol, colour in (
        ("unreliability", "Delta", plotting.RED),
        ("ambiguity", "gamma", plotting.BLUE),
    ):
        axes.plot(k, found[key], color=colour, label=f"{key} {symbol}")
        inside = np.where(holds, colour, "white")
        axes.scatter(k, found[key], s=26, color=inside, edgecolors=colour, zorder=3)
    axes.set_xlabel("k")
    axes.set_ylabel("degree of the top k")
    axes.set_ylim(-0.03, 1.03)
    axes.legend(fontsize=8.5)
