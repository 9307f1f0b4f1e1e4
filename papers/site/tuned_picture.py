"""The picture of tuned and stated recipes: print, ours as stated and ours tuned, by method."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import data_name_of, name_of
from papers.site.tuned import OWN_LOSS

WIDTH = 0.24
"""How far two methods of one eps stand beside each other, in steps of the axis."""
APART = 0.07
"""How far a method's tuned mark stands to the right of its stated one."""
TITLE = "Tables 1a and 1b with one recipe for all methods, and with each method tuned"
CAPTION = (
    "Each method with its paper's loss; the printed ALIBI may have another. Tuned: learning rate, "
    "averaged weights and epochs by the likelihood of held-out releases, no true label. Bars: "
    "95 % t intervals; one seed has none, and a narrow one is hidden by its mark. Numbers, seeds, "
    "tests, the other ALIBI: results/tables/tuned_vs_stated.md."
)


def draw_tuned(rows: pd.DataFrame) -> Figure | None:
    """Returns the picture of `tables.tuned.rows_of`; None where fewer than two cells are there."""
    rows = rows[rows.method.isin(OWN_LOSS)]
    if len(rows) < 2:
        return None
    panels = list(rows.groupby("dataset", sort=False))
    figure, ((*all_axes,),) = plotting.new_figure(len(panels), height=3.9)
    for axes, (dataset, points) in zip(all_axes, panels, strict=True):
        _draw_panel(axes, points)
        axes.set(title=data_name_of(str(dataset)), xlabel="privacy budget eps")
    all_axes[0].set_ylabel("test accuracy, %")
    methods = [
        Line2D([], [], color=plotting.colour_of(name), label=name_of(name))
        for name in OWN_LOSS
        if name in set(rows.method)
    ]
    keys = [_key("x", "printed"), _key("o", "stated", mfc="white"), _key("o", "tuned")]
    size = plotting.LABEL_SIZE
    figure.legend(
        handles=[*methods, *keys], loc="outside right center", frameon=False, fontsize=size
    )
    plotting.title_and_caption(figure, TITLE, CAPTION)
    return figure


def _draw_panel(axes: Axes, points: pd.DataFrame) -> None:
    budgets = sorted(points.eps.unique())
    for place, method in enumerate(OWN_LOSS):
        here = points[points.method == method]
        x = here.eps.map(budgets.index) + WIDTH * (place - (len(OWN_LOSS) - 1) / 2)
        colour = plotting.colour_of(method)
        axes.plot(x, here.printed, "x", color=colour, markersize=7)
        for key, side, inside in (("stated", -APART, "white"), ("tuned", APART, colour)):
            half = (here[f"{key}_high"] - here[key]).fillna(0)
            style: Any = {"color": colour, "mfc": inside, "markersize": 6, "linewidth": 1.4}
            axes.errorbar(x + side, here[key], half, fmt="o", **style)
    axes.set_ylim(top=min(102.0, axes.get_ylim()[1]))
    axes.set_xticks(range(len(budgets)), [f"{eps:g}" for eps in budgets])


def _key(marker: str, label: str, **style: str) -> Line2D:
    return Line2D([], [], color=plotting.GREY, ls="", marker=marker, label=label, **style)  # type: ignore[arg-type]
