"""Utility against advantage: what an attacker gains from a release, beside what a model gains.

Imports no torch.
"""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from labeldp_bench import plotting


def draw_attacks(rows: pd.DataFrame, path: Path) -> bool:
    """Writes a panel per share of known labels; returns False, and writes nothing, without rows.

    Args:
        rows: of results/attacks.csv, one data set; those without a model accuracy are left out.
        path: a .png or .pdf.
    """
    rows = rows.dropna(subset="accuracy")
    rows = rows[rows.mechanism != "none"]
    if not len(rows):
        return False
    panels = list(rows.groupby("known"))
    figure, (all_axes,) = plotting.new_figure(len(panels), height=4.4)
    for axes, (share, points) in zip(all_axes, panels, strict=True):
        axes.set_title("no label known" if share == 0 else f"{100 * float(str(share)):g} % known")
        _draw_panel(axes, points)
    all_axes[0].set_ylabel("right guesses that only the release gives, points")
    handles, labels = all_axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8.5)
    budgets = sorted(rows[rows.guarantee != "no guarantee"].eps.unique())
    joined = f"Lines join {', '.join(f'eps={eps:g}' for eps in budgets)}. " if budgets else ""
    plotting.title_and_caption(
        figure, f"{rows.dataset.iloc[0]}: utility against additive reconstruction advantage",
        f"{joined}Each panel has a scale of its own.",
    )  # fmt: skip
    plotting.save(figure, path)
    return True


def _draw_panel(axes: Axes, points: pd.DataFrame) -> None:
    axes.set_xlabel("test accuracy of the model, %")
    axes.axhline(0, color=plotting.GREY, linewidth=0.8)
    for position, (name, line) in enumerate(points.groupby("mechanism")):
        bare = (line.guarantee == "no guarantee").any()
        mean = line.groupby(["eps", "config_hash"])[["accuracy", "additive"]].mean()
        mean = 100 * mean.sort_values("accuracy")
        label = plotting.name_of(str(name)) + (", no guarantee" if bare else "")
        axes.plot(
            mean.accuracy, mean.additive, "s" if bare else "o-", label=label, linewidth=1.2,
            markersize=7 if bare else 4.5, color=plotting.colour_of(str(name), position),
        )  # fmt: skip
