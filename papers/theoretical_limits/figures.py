"""Pictures of theoretical_limits: the exponents of Table I, and mechanisms for real labels."""

from functools import partial

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
    """Returns how far measured slopes lie from the exponents; None while no slope is known.

    A place for each slope, in groups of one exponent. Marks are filled for the tuning of the
    theorem, and open for the best of the grid.
    """
    rows = table.rows(records)
    trusts = {(one.name, one.against): one.trust for one in table.drawn}
    rows = rows[rows.agrees.isin(["yes", "no"])]  # contrasts and slopes over K have no verdict
    if rows.empty:
        return None
    rows = rows.assign(trust=[trusts[place] for place in zip(rows.cell, rows.against, strict=True)])
    rows = rows.sort_values(["predicted", "trust", "cell", "against"], kind="stable")
    exponent = rows.predicted.round(3)
    # One place on for each slope, and two more between groups.
    moves = rows[["cell", "against"]].ne(rows[["cell", "against"]].shift()).any(axis=1)
    place = moves.cumsum() + 2 * exponent.ne(exponent.shift()).cumsum()
    figure, ((axes,),) = plotting.new_figure(1, height=5.4)
    figure.set_size_inches(11, 6.2)
    tolerance = table.tolerance
    axes.axhspan(-tolerance, tolerance, color=plotting.GREY, alpha=0.15, lw=0)
    axes.axhline(0, color=plotting.BLACK, lw=1)
    bend = rows.bound_slope - rows.predicted
    axes.hlines(bend, place - 0.45, place + 0.45, color=plotting.BLACK, lw=1.6, label="lower bound")
    for trust, (name, mark, colour) in TRUSTS.items():
        for tuning, shift, inside in (("theory", -0.18, colour), ("best", 0.18, "white")):
            part = rows[(rows.trust == trust) & (rows.tuning == tuning)]
            if len(part):
                axes.errorbar(
                    place[part.index] + shift,
                    part.measured - part.predicted,
                    [part.measured - part.low, part.high - part.measured],
                    label=f"{name}, {tuning}",
                    fmt=mark,
                    ms=3,
                    color=colour,
                    mfc=inside,
                    mew=0.8,
                    lw=1.2,
                    capsize=2,
                )
    axes.set_xticks(
        place.groupby(exponent).mean(), [f"{x:g}" for x in sorted(set(exponent))], fontsize=8
    )
    axes.set_xlabel("exponent of the theorem")
    axes.set_ylabel("measured slope less exponent")
    axes.legend(fontsize=8, loc="upper right", frameon=False, ncols=2)
    tuned = rows[rows.tuning == "theory"]
    inside = tuned.predicted.between(tuned.low, tuned.high)
    plotting.title_and_caption(
        figure,
        f"{tuned.agrees.eq('yes').sum()} of {len(tuned)} measured slopes agree with their "
        f"exponent; {inside.sum()} of {len(tuned)} intervals hold it",
        f"A place for each slope. Filled: the theorem's tuning, which the title counts; open: the "
        f"best of a grid. A slope agrees if its 95 % interval (bar) holds the exponent (line), or "
        f"if it is within {tolerance:g} of it (grey). Dash: the slope of the theorem's lower "
        f"bound over the same points, with 1 for its constants.",
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
