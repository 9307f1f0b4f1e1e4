"""Who sees the labels: a curator or nobody, on the same features; and what local releases tell."""

import itertools
import math
from typing import Any

import hydra
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import DATA_SETS, name_of
from labeldp_bench.reports.rendering import markdown_table, number_text
from papers.comparisons import holm
from papers.figures import Axis, PaperFigure, style_axes

COLOURS = {
    "central": (plotting.BLUE, plotting.SKY),
    "local": (plotting.RED, plotting.ORANGE, plotting.GREEN, plotting.WINE),
}
MARKERS = {"central": "^", "local": "o"}
BITS = Axis("information", "bits", "bits that all releases tell", log=True)
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
    "central one. Below: N times the information that one local release has of a uniform "
    "label; dashed: all labels. What a curator's answer tells has no such number."
)


def draw_trust(points: pd.DataFrame, figure: PaperFigure) -> Figure:
    """Returns two rows of panels."""
    panels = list(dict.fromkeys(points.panel))
    drawn, axes = plotting.new_figure(len(panels), rows=2, height=3.3)
    ticks = sorted(points.x.dropna().unique())
    for column, panel in zip(axes.T, panels, strict=True):
        rows = points[(points.panel == panel) & (points.n > 0)]
        above, below = column
        above.set_title(figure.panel_title(panel))
        style_axes(above, figure.x, figure.y, ticks)
        style_axes(below, figure.x, BITS, ticks)
        _lines(above, rows)
        if len(rows):  # a band of two seeds may reach far beyond what an accuracy can be
            above.set_ylim(rows.y.min() - 5, min(100.0, rows.y.max() + 5))
        _information(below, rows)
        at = crossing(rows)
        for place in column:
            place.set_xlim(0.9 * min(ticks), 1.1 * max(ticks))
            if math.isfinite(at):
                place.axvline(at, color=plotting.GREY, lw=1.2)
    plotting.share_y(list(axes[1]))
    # Above there is no room that lines or bands leave free.
    handles, labels = axes[0][0].get_legend_handles_labels()
    where: Any = {"loc": "center left", "alignment": "left", "bbox_to_anchor": (0.0, 0.62)}
    axes[1][-1].legend(handles, labels, title="lines above", fontsize=8, **where)
    axes[1][0].legend(fontsize=8, loc="lower right")
    plotting.thin_ticks(drawn)
    return drawn


def crossings(points: pd.DataFrame, figure: PaperFigure) -> list[str]:
    """Returns where local reaches central, and the information of releases, Markdown."""
    parts = []
    done = points[points.n > 0]
    for panel, rows in done.groupby("panel", sort=False):
        at, name = crossing(rows), figure.panel_title(str(panel))
        says = NO_CROSSING if math.isnan(at) else CROSSING
        parts.append(says.format(at=f"{at:.2g}", panel=name))
    compared = worth(done)
    if len(compared):
        parts += [WORTH.format(count=len(compared)), _worth_table(compared, figure)]
    told = budgets(done).drop_duplicates(["mechanism", "x"])
    table = {
        "release": told.mechanism.map(name_of),
        "eps": told.x.map(str),
        "bits of a label": told.each.map("{:.5f}".format),
        "of all": told["all"].map("{:,.0f}".format),
    }
    return [*parts, markdown_table(table)] if len(told) else parts


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


def budgets(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns mechanism, x, bits of each label, of all (times N), most (N log2 K); local only."""
    from labeldp.information import information  # torch

    found = []
    for point in rows[trust_of(rows) == "local"].to_dict("records"):
        cell: Cell = point["cell"]
        mechanism = hydra.utils.instantiate(cell.config["mechanism"], _convert_="all")
        try:
            bits = information(mechanism, cell.num_classes).bits
        except InputError:  # it needs a prior
            continue
        count = int(point["records"][0]["n_train"])
        most = count * math.log2(cell.num_classes)
        found.append((point["mechanism"], point["x"], bits, count * bits, most))
    columns = ["mechanism", "x", "each", "all", "most"]
    return pd.DataFrame(found, columns=columns).sort_values(["mechanism", "x"])


def _lines(axes: Axes, rows: pd.DataFrame) -> None:
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


def _information(axes: Axes, rows: pd.DataFrame) -> None:
    told = budgets(rows).drop_duplicates(["mechanism", "x"])
    for place, (mechanism, line) in enumerate(told.groupby("mechanism", sort=False)):
        colour = plotting.colour_of(str(mechanism), place)
        axes.plot(line.x, line["all"], "o-", color=colour, label=name_of(str(mechanism)))
    if len(told):
        axes.axhline(told.most.iloc[0], color=plotting.BLACK, ls="--", lw=1.2, label="all labels")


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
    notes=crossings,
)
