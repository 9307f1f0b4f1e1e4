"""Pictures of table I: risk curves with both slopes, and measured beside predicted exponents."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports import plotting
from labeldp_bench.reports.statistics import SeedsEstimate
from papers.figures import write_both
from papers.theoretical_limits.series import Series, is_theory
from papers.theoretical_limits.table1 import ExponentTable

COLUMNS = 4
TRUSTS = {
    "none": ("no privacy", "o", plotting.GREY),
    "local": ("local, labels", "s", plotting.RED),
    "local_full": ("local, features and labels", "D", plotting.ORANGE),
    "central": ("central", "^", plotting.BLUE),
}
"""{trust model: name, mark and colour}."""
CAPTION = (
    "A panel for each cell of Table I and each axis. Bias: of regression, the mean squared one; of "
    "classification, the excess risk of what most trials say. Variance: the rest of the risk. In "
    "classification it can be near 0 or below, as noise also corrects what most trials get wrong "
    "(kNN, last panel): a value below 0 cannot stand on a logarithmic axis and is left out."
)


def write_pictures(table: ExponentTable, records: Records, out: Path) -> list[Path]:
    """Writes `<stem>_curves` and `<stem>_exponents` as PNG and PDF; none while nothing is done."""
    rows = table.rows(records)
    out.mkdir(parents=True, exist_ok=True)
    found = rows.measured.notna().any()
    curves, exponents = (out / f"{table.stem}_{name}" for name in ("curves", "exponents"))
    return [
        # Fewer dots for many panels, which all go into one page.
        *write_both(curves, lambda: _curves(table, rows, records) if found else None, 110),
        *write_both(exponents, lambda: _exponents(table, rows) if found else None),
    ]


def _curves(table: ExponentTable, rows: pd.DataFrame, records: Records) -> Figure:
    """Returns one panel per series: risks, their bias and variance, fitted and predicted slope."""
    series = [one for one in table.drawn if any(is_rule for *_, is_rule in _done(one, records))]
    figure, axes = plotting.new_figure(COLUMNS, math.ceil(len(series) / COLUMNS), height=3.5)
    for panel, one in zip(axes.flat, series, strict=False):
        same = rows[(rows.cell == one.name) & (rows.against == one.against)]
        _draw_panel(panel, one, same[same.tuning == "theory"].iloc[0], records)
    for panel in axes.flat[len(series) :]:
        panel.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=6, frameon=False)
    plotting.title_and_caption(figure, "", CAPTION)
    return figure


def _draw_panel(axes: Axes, series: Series, theory: "pd.Series[float]", records: Records) -> None:
    found = _done(series, records)
    # The theory's tuning, and the least risk of the grid, by x.
    points = {x: record for x, record, is_rule in found if is_rule}
    best: dict[float, float] = {}
    for place, record, _ in found:
        best[place] = min(best.get(place, math.inf), float(record["excess_risk"]))
    x = np.array(sorted(points))
    risk, error, bias = (
        np.array([points[place][key] for place in x])
        for key in ("excess_risk", "excess_risk_sem", "bias")
    )
    colour = TRUSTS[series.trust][2]
    half = [
        SeedsEstimate(0.0, one, float(points[place].get("trials") or math.inf) - 1).half_width
        for place, one in zip(x, error, strict=True)
    ]
    axes.errorbar(x, risk, half, fmt="o", color=colour, label="excess risk, 95 % interval")
    for values, shade, label in (
        (bias, plotting.GREEN, "bias"),
        (risk - bias, plotting.WINE, "variance"),
    ):
        shown = np.where(values > 0, values, np.nan)  # a logarithmic axis would draw 0 as a spike
        axes.plot(x, shown, ".:", color=shade, lw=1.4, ms=3, label=label)
    slopes = []
    for what, style, dark, label in (
        ("measured", "-", colour, "fitted slope"),
        ("predicted", "--", plotting.BLACK, "slope of the theorem"),
    ):
        if not math.isnan(theory[what]):
            line = np.exp(np.log(risk).mean() + theory[what] * (np.log(x) - np.log(x).mean()))
            axes.plot(x, line, style, color=dark, lw=1.4, label=label)
            slopes.append(f"{what} {theory[what]:.2f}")
    places = sorted(best)
    lowest = [best[place] for place in places]
    axes.plot(places, lowest, "x", color=plotting.GREY, label="best of the grid")
    plotting.log_scale(axes, "xy")
    axes.xaxis.set_minor_formatter(NullFormatter())
    if series.kind in ("eps", "K"):
        axes.set_xticks(x[::2], [f"{value:g}" for value in x[::2]])
    axes.set_ylim(max(axes.get_ylim()[0], min(*risk, *lowest) / 8), None)
    task, protection, what = series.name.split(" | ")
    axes.set_title(f"{task}\n{protection}: {what}\n{', '.join(slopes)}", fontsize=9)
    axes.set_xlabel(series.against, fontsize=9)
    axes.set_ylabel("excess risk", fontsize=9)
    axes.tick_params(labelsize=8, which="both")


def _exponents(table: ExponentTable, rows: pd.DataFrame) -> Figure:
    """Returns measured over predicted exponents: filled for theory's tuning, open for the best."""
    figure, ((axes,),) = plotting.new_figure(1, height=5.4)
    figure.set_size_inches(7.2, 5.6)
    trusts = {(one.name, one.against): one.trust for one in table.drawn}
    rows = rows[rows.agrees.isin(["yes", "no"])]  # contrasts and slopes over K have no verdict
    rows = rows.assign(trust=[trusts[place] for place in zip(rows.cell, rows.against, strict=True)])
    both = rows[["predicted", "measured"]]
    ends = np.array([both.min().min() - 0.06, both.max().max() + 0.06])
    axes.plot(ends, ends, color=plotting.BLACK, lw=1)
    tolerance = table.tolerance
    axes.fill_between(
        ends, ends - tolerance, ends + tolerance, color=plotting.GREY, alpha=0.15, lw=0
    )
    for trust, (name, mark, colour) in TRUSTS.items():
        for tuning, shift, inside in (("theory", -0.004, colour), ("best", 0.004, "white")):
            part = rows[(rows.trust == trust) & (rows.tuning == tuning)]
            if len(part):
                bars = [part.measured - part.low, part.high - part.measured]
                style: Any = {"fmt": mark, "ms": 6, "color": colour, "mfc": inside, "lw": 1.2}
                x, label = part.predicted + shift, f"{name}, {tuning}"
                axes.errorbar(x, part.measured, bars, label=label, **style)
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_xlabel("exponent of the theorem")
    axes.set_ylabel("measured slope")
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    plotting.title_and_caption(
        figure,
        "Exponents of Table I: measured against predicted",
        f"Filled: the theorem's tuning; open: the best of the grid, beside it. On the line both "
        f"agree; grey: within {tolerance:g}. Bars: 95 % intervals.",
    )
    return figure


def _done(series: Series, records: Records) -> list[tuple[float, Record, bool]]:
    """Returns (x, record, whether its tuning is the rule's) of each cell that is done."""
    return [
        (x, records[cell.config_hash], is_theory(cell))
        for x, cell in series.cells
        if cell.config_hash in records
    ]
