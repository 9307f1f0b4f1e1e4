"""Pictures of table I: risk curves with both slopes, and measured beside predicted exponents."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.tables.base import Records
from labeldp_bench.reports.tables.exponents import ExponentTable
from labeldp_bench.reports.theory.series import Series, is_theory

COLUMNS = 4
MARKS = {"none": "o", "local": "s", "local_full": "D", "central": "^"}
COLOURS = {
    "none": plotting.GREY, "local": plotting.RED, "local_full": plotting.ORANGE,
    "central": plotting.BLUE,
}  # fmt: skip
NAMES = {
    "none": "no privacy", "local": "local, labels", "local_full": "local, features and labels",
    "central": "central",
}  # fmt: skip


def write_pictures(table: ExponentTable, records: Records, out: Path) -> list[Path]:
    """Writes `<stem>_curves` and `<stem>_exponents` as PNG and PDF; none while nothing is done."""
    rows = table.rows(records)
    done = rows[rows.measured.notna()]
    stems = {name: out / f"{table.stem}_{name}" for name in ("curves", "exponents")}
    paths = [stem.with_suffix(end) for stem in stems.values() for end in (".png", ".pdf")]
    if done.empty:
        for path in paths:
            path.unlink(missing_ok=True)
        return []
    out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if path.stem.endswith("curves"):
            draw_curves(table, rows, records, path)
        else:
            draw_exponents(done, table, path)
    return paths


def draw_curves(table: ExponentTable, rows: pd.DataFrame, records: Records, path: Path) -> None:
    """Draws one panel per series: risks, their bias and variance, fitted and predicted slope."""
    series = [one for one in table.series if not one.companion and _done(one, records)]
    height = math.ceil(len(series) / COLUMNS)
    figure, axes = plotting.new_figure(COLUMNS, height, height=3.5)
    for place, panel in enumerate(axes.flat):
        if place >= len(series):
            panel.set_visible(False)
            continue
        one = series[place]
        same = rows[(rows.cell == one.name) & (rows.against == one.against)]
        _draw_panel(panel, one, same, records)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=6, frameon=False)
    plotting.save(figure, path)


def _draw_panel(axes: Axes, series: Series, rows: pd.DataFrame, records: Records) -> None:
    points = _done(series, records)
    x = np.array(sorted(points))
    risk = np.array([points[value]["excess_risk"] for value in x])
    error = np.array([points[value]["excess_risk_sem"] for value in x])
    bias = np.maximum([points[value]["bias"] for value in x], 0.0)
    colour = COLOURS[series.trust]
    axes.errorbar(x, risk, 2 * error, fmt="o", color=colour, label="excess risk ± 2 s.e.")
    axes.plot(x, bias, ":", color=plotting.GREEN, lw=1.4, label="bias")
    axes.plot(x, risk - bias, ":", color=plotting.WINE, lw=1.4, label="variance")
    theory = rows[rows.tuning == "theory"].iloc[0]
    middle = (np.log(x).mean(), np.log(risk).mean())
    title = ""
    for slope, style, label in (
        (theory.measured, "-", "fitted slope"), (theory.predicted, "--", "slope of the theorem"),
    ):  # fmt: skip
        if not math.isnan(slope):
            line = np.exp(middle[1] + slope * (np.log(x) - middle[0]))
            black = plotting.BLACK if style == "--" else colour
            axes.plot(x, line, style, color=black, lw=1.4, label=label)
            title += f", {'predicted' if style == '--' else 'measured'} {slope:.2f}"
    best = _best(series, records)
    axes.plot(list(best), list(best.values()), "x", color=plotting.GREY, label="best of the grid")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    if series.kind != "N" and series.kind != "along":
        axes.set_xticks(x[::2], [f"{value:g}" for value in x[::2]])
    low = min(risk.min(), min(best.values())) / 8
    axes.set_ylim(max(axes.get_ylim()[0], low), None)
    task, protection, what = series.name.split(" | ")
    axes.set_title(f"{task}\n{protection}: {what}\n{title[2:]}", fontsize=9)
    axes.set_xlabel(series.against, fontsize=9)
    axes.set_ylabel("excess risk", fontsize=9)
    axes.tick_params(labelsize=8, which="both")


def draw_exponents(rows: pd.DataFrame, table: ExponentTable, path: Path) -> None:
    """Draws measured against predicted exponents: filled for theory's tuning, open for the best."""
    figure, ((axes,),) = plotting.new_figure(1, height=5.4)
    figure.set_size_inches(7.2, 5.6)
    kinds = {(one.name, one.against): one.trust for one in table.series}
    rows = rows[rows.agrees.isin(["yes", "no"])]  # contrasts and slopes over K have no verdict
    ends = [min(rows.predicted.min(), rows.measured.min()) - 0.06, 0.0]
    ends[1] = max(rows.predicted.max(), rows.measured.max()) + 0.06
    axes.plot(ends, ends, color=plotting.BLACK, lw=1)
    tolerance = table.tolerance
    lower, upper = [e - tolerance for e in ends], [e + tolerance for e in ends]
    axes.fill_between(ends, lower, upper, color=plotting.GREY, alpha=0.15, lw=0)
    for trust, mark in MARKS.items():
        for tuning, shift in (("theory", -0.004), ("best", 0.004)):
            wanted = [
                kinds[(row.cell, row.against)] == trust and row.tuning == tuning
                for row in rows.itertuples()
            ]
            part = rows[wanted]
            if part.empty:
                continue
            axes.errorbar(
                part.predicted + shift, part.measured,
                [part.measured - part.low, part.high - part.measured], fmt=mark, ms=6,
                color=COLOURS[trust], mfc=COLOURS[trust] if tuning == "theory" else "white",
                label=f"{NAMES[trust]}, {tuning}", lw=1.2,
            )  # fmt: skip
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_xlabel("exponent of the theorem")
    axes.set_ylabel("measured slope")
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    plotting.title_and_caption(
        figure, "Exponents of Table I: measured against predicted",
        f"Filled: the theorem's tuning; open: the best of the grid, beside it. On the line both "
        f"agree; grey: within {tolerance:g}. Bars: 95 % intervals.",
    )  # fmt: skip
    plotting.save(figure, path)


def _done(series: Series, records: Records) -> dict[float, dict[str, Any]]:
    """Returns the records of the theory's tuning by x."""
    return {
        x: records[cell.config_hash]
        for x, cell in series.cells
        if is_theory(cell) and cell.config_hash in records
    }


def _best(series: Series, records: Records) -> dict[float, float]:
    best: dict[float, float] = {}
    for x, cell in series.cells:
        if cell.config_hash in records:
            risk = float(records[cell.config_hash]["excess_risk"])
            best[x] = min(best.get(x, math.inf), risk)
    return dict(sorted(best.items()))
