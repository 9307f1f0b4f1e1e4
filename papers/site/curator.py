"""A trusted curator against local privacy on the same features (docs/central.md)."""

import itertools
import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import DATA_SETS
from labeldp_bench.reports.rendering import markdown_table, number_text
from papers.comparisons import holm
from papers.figures import Axis, PaperFigure, style_axes

COLOURS = {
    "central": (plotting.BLUE, plotting.SKY),
    "local": (plotting.RED, plotting.ORANGE, plotting.GREEN, plotting.WINE),
}
MARKERS = {"central": "^", "local": "o"}
CROSSING = """\
The best local mean reaches the best central one at eps={at} on {panel} (on a straight line over
log eps between the nearest two budgets that both have; of means alone, without an interval)."""
WORTH = """\
Best central mean, best local mean, and their difference in points with its number of seeds, by
seed where both have the same. Each best is the highest of the lines above, so chosen by test
accuracy: p is from a t test, times the number of pairs of lines at that eps, after Holm for all
{count}."""
NO_CROSSING = (
    "On {panel} the best local mean stays below the best central one at all budgets of both."
)
CAPTION = (
    "Bands: 95 % t intervals over seeds. Grey: where the best local mean reaches the best "
    "central one."
)


def draw_trust(points: pd.DataFrame, figure: PaperFigure) -> Figure:
    """Returns a panel per data set, each with its central and local lines."""
    panels = list(points.groupby("panel", sort=False))
    drawn, ((*all_axes,),) = plotting.new_figure(len(panels), height=3.6)
    ticks = sorted(points.x.dropna().unique())
    for axes, (panel, rows) in zip(all_axes, panels, strict=True):
        rows = rows[rows.n > 0]
        axes.set_title(figure.panel_title(str(panel)))
        style_axes(axes, figure.x, figure.y, ticks)
        _draw_lines(axes, rows)
        if len(rows):  # a band of two seeds may reach far beyond what an accuracy can be
            axes.set_ylim(rows.y.min() - 5, min(100.0, rows.y.max() + 5))
        axes.set_xlim(0.9 * min(ticks), 1.1 * max(ticks))
        if math.isfinite(at := crossing(rows)):
            axes.axvline(at, color=plotting.GREY, lw=1.2)
    handles, labels = all_axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    plotting.thin_ticks(drawn)
    return drawn


def comparison(points: pd.DataFrame, figure: PaperFigure) -> list[str]:
    """Returns where local reaches central, and their differences at each eps, Markdown."""
    parts = []
    done = points[points.n > 0]
    for panel, rows in done.groupby("panel", sort=False):
        at, name = crossing(rows), figure.panel_title(str(panel))
        text = NO_CROSSING if math.isnan(at) else CROSSING
        parts.append(text.format(at=f"{at:.2g}", panel=name))
    compared = worth(done)
    if len(compared):
        parts += [WORTH.format(count=len(compared)), _worth_table(compared, figure)]
    return parts


def trust_of(rows: pd.DataFrame) -> pd.Series:
    """Returns `local` or `central` of each point; all have records, here and below."""
    return rows.records.map(lambda records: str(records[0].get("trust")))


def crossing(rows: pd.DataFrame) -> float:
    """Returns the eps at which the best local mean reaches the best central one; NaN: nowhere.

    At the smallest eps that both have, if local is ahead there already. Rows: of one panel.
    """
    best = rows.assign(trust=trust_of(rows)).pivot_table(
        index="x", columns="trust", values="y", aggfunc="max"
    )
    if not {"local", "central"} <= set(best):
        return math.nan
    ahead = (best.local - best.central).dropna().sort_index()
    reached = np.flatnonzero(ahead.to_numpy() >= 0)
    if not len(reached):
        return math.nan
    first = int(reached[0])
    if first == 0:
        return float(ahead.index[0])
    low, high = np.log(ahead.index[first - 1 : first + 1])
    before, after = ahead.iloc[first - 1], ahead.iloc[first]
    return float(np.exp(low + (high - low) * before / (before - after)))


def worth(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns panel, x, central, local (estimates), gap (central - local), p (corrected).

    A row for each panel and budget that both have.
    """
    found = []
    rows = rows.assign(trust=trust_of(rows)).dropna(subset="x")
    for (panel, x), here in rows.groupby(["panel", "x"], sort=False):
        lines = {trust: list(same.estimate) for trust, same in here.groupby("trust")}
        if {"central", "local"} <= set(lines):
            best = [max(lines[trust], key=lambda one: one.value) for trust in ("central", "local")]
            gap = best[0].minus(best[1])
            pairs = len(lines["central"]) * len(lines["local"])
            found.append((panel, x, *best, gap, float(np.minimum(1.0, pairs * gap.p))))
    compared = pd.DataFrame(found, columns=["panel", "x", "central", "local", "gap", "p"])
    return compared.assign(p=holm(compared.p.tolist()))


def _worth_table(compared: pd.DataFrame, figure: PaperFigure) -> str:
    """Returns a row for each budget, three columns for each panel, Markdown."""
    cells = {
        (row.panel, row.x): (
            f"{row.central.value:.1f}, {row.local.value:.1f}",
            f"{row.gap.value:+z.1f} ± {row.gap.half_width:.1f} ({len(row.gap.by_seed)})",
            number_text(row.p, "{:.2g}"),
        )
        for row in compared.itertuples()
    }
    panels = list(dict.fromkeys(compared.panel))
    heads = [head for panel in panels for head in (figure.panel_title(panel), "difference", "p")]
    lines = [
        [f"{x:g}", *(text for panel in panels for text in cells.get((panel, x), ("-",) * 3))]
        for x in sorted(set(compared.x))
    ]
    return markdown_table(lines, [figure.x.symbol, *heads])


def _draw_lines(axes: Axes, rows: pd.DataFrame) -> None:
    trusts = trust_of(rows)
    for trust, colours in COLOURS.items():
        lines = rows[trusts == trust].groupby("line", sort=False)
        for (_, line), colour in zip(lines, itertools.cycle(colours), strict=False):
            line = line.sort_values("x")
            error = line.error.fillna(0)
            axes.fill_between(
                line.x, line.y - error, line.y + error, color=colour, alpha=0.15, lw=0
            )
            name = f"{trust}: {line['name'].iloc[0].removesuffix(', central')}"
            axes.plot(line.x, line.y, f"{MARKERS[trust]}-", color=colour, label=name)


FIGURE = PaperFigure(
    name="mechanisms/local_and_central",
    title=(
        "At small eps the curator's mean is higher, at large eps the local one, on features of "
        "one recipe"
    ),
    x=Axis("eps", "eps", "privacy budget eps", log=True),
    draw=draw_trust,
    bands=CAPTION,
    lines="method+model",
    panels="dataset",
    titles=DATA_SETS,
    note=(
        "Central and local numbers are two promises and are never compared without saying so; "
        "noisy moments have delta=1e-5, the other lines delta=0."
    ),
    notes=comparison,
)
