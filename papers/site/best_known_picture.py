"""The picture of the best-known table: printed and ours, a panel per data set."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import data_name_of
from labeldp_bench.reports.statistics import ENOUGH_SEEDS
from papers.site.best_known import KINDS

SERIES = {
    "printed_local": ("printed, local", plotting.BLACK, "s", "white"),
    "printed_central": ("printed, central (delta > 0)", plotting.GREY, "^", "white"),
    "ours": ("ours, local", plotting.RED, "o", plotting.RED),
    "ours_features": (
        "ours, local, with features learnt before",
        plotting.BLUE,
        "o",
        plotting.BLUE,
    ),
    "ours_central": ("ours, central", plotting.SKY, "^", plotting.SKY),
}
"""{column: label, colour, marker, its inside}."""
PREFIXES = {kind.column: prefix for prefix, kind in KINDS.items()}
COLUMNS = 3
APART = 0.13
"""How far marks of one eps stand beside each other, in steps of the axis."""
CAPTION = (
    "Best value at each eps: printed there by any paper, unless a better one is printed at a "
    "smaller eps or, beside the central ones, for local privacy; and ours, by the lower end of its "
    "interval. Ours, filled: the mean of three seeds or more, with a bar for its 95 % t interval "
    "over them; where no bar shows, the interval is narrower than the mark. Hollow: fewer seeds. "
    "results/tables/best_known.md names methods, networks, epochs, seeds, sources and tests, and "
    "marks what was chosen after a look at test scores."
)


def draw_best_known(rows: pd.DataFrame) -> Figure:
    """Returns the picture of the rows of `tables.best_known.rows_of`."""
    panels = list(rows.groupby("dataset", sort=False))
    figure, grid = plotting.new_figure(COLUMNS, math.ceil(len(panels) / COLUMNS), height=3.6)
    all_axes = list(grid.flat)
    for axes, (dataset, points) in zip(all_axes, panels, strict=False):
        axes.set_title(data_name_of(str(dataset)))
        _draw_panel(axes, points.reset_index(drop=True))
    for axes in all_axes[len(panels) :]:
        axes.axis("off")
    for axes in grid[:, 0]:
        axes.set_ylabel("test accuracy, %")
    shown = plotting.legend_of(all_axes)
    ordered = [label for label, *_ in SERIES.values() if label in shown]
    handles, size = [shown[label] for label in ordered], plotting.LABEL_SIZE
    figure.legend(handles, ordered, loc="outside upper left", ncols=5, frameon=False, fontsize=size)
    plotting.title_and_caption(figure, "", CAPTION)
    return figure


def _draw_panel(axes: Axes, points: pd.DataFrame) -> None:
    shown = [column for column in SERIES if not _known(points, column).empty]
    for place, column in enumerate(shown):
        known, (label, colour, marker, inside) = _known(points, column), SERIES[column]
        prefix = PREFIXES.get(column)
        half = few = None
        if prefix is not None:
            few = known[f"{prefix}seeds"] < ENOUGH_SEEDS
            half = ((known[f"{prefix}high"] - known[f"{prefix}low"]) / 2).mask(few, 0)
        x = known.index + APART * (place - (len(shown) - 1) / 2)
        style: Any = {"color": colour, "markersize": 6.5}
        line: Any = {"mfc": inside, "linewidth": 1.4, "label": label}
        axes.errorbar(x, known[column], half, fmt=marker, **style, **line)
        if few is not None:
            axes.plot(x[few], known[column][few], marker, mfc="white", zorder=3, **style)
    axes.set_ylim(0, 102)
    axes.set_xlim(-0.5, len(points) - 0.5)
    axes.set_xticks(points.index, [f"{eps:g}" for eps in points.eps])
    axes.set_xlabel("privacy budget eps")


def _known(points: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns the rows with a value of this series, printed ones at their own eps alone."""
    known = points[points[column].notna()]
    if column in PREFIXES:
        return known
    # What stands here for lack of a better one is drawn at its own eps.
    own_trust = known[f"{column}_trust"] == column.removeprefix("printed_")
    return known[own_trust & (known[f"{column}_eps"] == known.eps)]
