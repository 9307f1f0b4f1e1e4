"""Pictures of theoretical_limits: the exponents of Table I, and mechanisms for real labels."""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from labeldp_bench.records.record import Records
from labeldp_bench.reports import plotting
from papers.figures import BANDS, Axis, PaperFigure, draw_panels
from papers.theoretical_limits.table1 import ExponentTable

TRUSTS = {
    "none": ("no privacy", "o", plotting.GREY),
    "local": ("local, labels", "s", plotting.RED),
    "local_full": ("local, features and labels", "D", plotting.ORANGE),
    "central": ("central", "^", plotting.BLUE),
}
"""{trust model: name, mark and colour}."""


def draw_exponents(table: ExponentTable, records: Records) -> Figure | None:
    """Returns measured over predicted exponents of Table I; None while no slope is known.

    Marks are filled for the tuning of the theorem, and open for the best of the grid.
    """
    rows = table.rows(records)
    trusts = {(one.name, one.against): one.trust for one in table.drawn}
    rows = rows[rows.agrees.isin(["yes", "no"])]  # contrasts and slopes over K have no verdict
    if rows.empty:
        return None
    rows = rows.assign(trust=[trusts[place] for place in zip(rows.cell, rows.against, strict=True)])
    figure, ((axes,),) = plotting.new_figure(1, height=5.4)
    figure.set_size_inches(7.2, 5.6)
    both, tolerance = rows[["predicted", "measured"]], table.tolerance
    ends = np.array([both.min().min() - 0.06, both.max().max() + 0.06])
    axes.plot(ends, ends, color=plotting.BLACK, lw=1)
    axes.fill_between(
        ends, ends - tolerance, ends + tolerance, color=plotting.GREY, alpha=0.15, lw=0
    )
    for trust, (name, mark, colour) in TRUSTS.items():
        for tuning, shift, inside in (("theory", -0.004, colour), ("best", 0.004, "white")):
            part = rows[(rows.trust == trust) & (rows.tuning == tuning)]
            if len(part):
                axes.errorbar(
                    part.predicted + shift,
                    part.measured,
                    [part.measured - part.low, part.high - part.measured],
                    label=f"{name}, {tuning}",
                    fmt=mark,
                    ms=6,
                    color=colour,
                    mfc=inside,
                    lw=1.2,
                )
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    axes.set_xlabel("exponent of the theorem")
    axes.set_ylabel("measured slope")
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    tuned = rows[rows.tuning == "theory"]
    inside = tuned.predicted.between(tuned.low, tuned.high)
    plotting.title_and_caption(
        figure,
        f"{tuned.agrees.eq('yes').sum()} of {len(tuned)} measured slopes agree with their "
        f"exponent; {inside.sum()} of {len(tuned)} intervals hold it",
        f"Filled: the theorem's tuning, which the title counts; open: the best of the grid, beside "
        f"it. A slope agrees if its 95 % interval (bar) holds the exponent, or if it is within "
        f"{tolerance:g} of it (grey).",
    )
    return figure


ALL = (
    PaperFigure(
        name="theoretical_limits/diabetes",
        title=(
            "Diabetes: 353 patients, k nearest neighbours of released labels, mean of 100 draws "
            "of the noise"
        ),
        x=Axis("eps", "eps", "eps", log=True),
        y=Axis("test_mse", "MSE", "test MSE in squared units of the label", log=True),
        draw=partial(draw_panels, share_y=True),
        bands=BANDS,
        panels="model.k",
        note=(
            "Cube means are the private mean of all labels, without a look at features; clipped "
            "Laplace clips to the middle half of the range."
        ),
    ),
)
