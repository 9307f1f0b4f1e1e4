"""Losses on tables: scores of probabilities against eps, and what each loss wins over the plain."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.rendering import markdown_table, number_text
from labeldp_bench.reports.statistics import from_seeds
from papers.comparisons import LEVEL, holm, is_significant
from papers.figures import Axis, PaperFigure, style_axes

LOSSES = {"plain": "plain", "softmax_bits": "plain", "unbiased": "unbiased", "marginal": "marginal"}
"""The loss of a cell -> what it is here: bits as if they were true are plain too."""
COLOURS = {"plain": plotting.BLUE, "unbiased": plotting.ORANGE, "marginal": plotting.GREEN}
DASHES = {"rr": "-", "subset_selection": "--"}
MODELS = {"logistic": "linear", "boosted_trees": "trees"}
OTHERS = {
    "average_precision": "average precision", "normalised_log_likelihood": "log-likelihood",
    "calibration_error": "calibration error",
}  # fmt: skip
OTHERS_AT = 1.0
SEEDS_OF_A_BAND = 3
INTRO = """\
AUC, mean over seeds. *closed*: the share of the gap between plain and no privacy that a loss
closes; `-` where the 95 % t interval of that gap, seed by seed, reaches down to 0.
*marginal - unbiased*: seed by seed, ± half the width of its 95 % t interval; p: two-sided paired t
test, corrected after Holm for the {count} comparisons of this page; **bold** below {level:g}."""
VERDICT = """\
Of {count} comparisons the marginal likelihood has the larger AUC in {more} and the smaller in
{less}; after Holm {better} are better and {worse} worse at {level:g}."""
MORE = """\
Other scores at eps={eps:g}: *log-likelihood* is normalised, 0 a constant model, 1 certain; below 0
the probabilities are worse than no model, as those of a model of *released* labels are."""
CAPTION = (
    "Bands: the 95 % t interval over three seeds or more. Dotted: no privacy. Dashed: subset "
    "selection, which for two classes is RR."
)


def draw_rare_events(points: pd.DataFrame, figure: PaperFigure) -> Figure:
    """Returns lines over eps; the panels of a data set share their range."""
    table = scores_by_seed(points, (figure.y.key,))
    panels = list(dict.fromkeys(points.panel))
    drawn, axes = plotting.new_figure(len(panels), rows=len(MODELS), height=3.3)
    for column, panel in zip(axes.T, panels, strict=True):
        for place, model in zip(column, MODELS, strict=True):
            rows = table[(table.panel == panel) & (table.model == model)]
            place.set_title(f"{figure.panel_title(panel)}, {MODELS[model]}")
            style_axes(place, figure.x, figure.y, sorted(points.x.dropna().unique()))
            _lines(place, rows.assign(y=figure.y.scale * rows[figure.y.key]))
        plotting.share_y(list(column))
    axes[0][0].legend(fontsize=8.5, loc="lower right", frameon=False)
    return drawn


def losses_compared(points: pd.DataFrame, figure: PaperFigure) -> list[str]:
    """Returns the comparison of losses and the other scores, Markdown."""
    table = scores_by_seed(points, (figure.y.key, *OTHERS))
    compared = comparisons(table, figure.y.key)
    if compared.empty:
        return []
    known = compared[compared.p.notna()]
    sure = known[known.p < LEVEL].difference
    verdict = VERDICT.format(
        count=len(known), more=(known.difference > 0).sum(), less=(known.difference < 0).sum(),
        better=(sure > 0).sum(), worse=(sure < 0).sum(), level=LEVEL,
    )  # fmt: skip
    lines = [_line(row) for row in compared.to_dict("records")]
    parts = [INTRO.format(count=len(known), level=LEVEL), markdown_table(lines), verdict]
    others = _others(table[(table.x == OTHERS_AT) | table.x.isna()])
    return [*parts, MORE.format(eps=OTHERS_AT), markdown_table(others)] if others else parts


def scores_by_seed(points: pd.DataFrame, scores: Sequence[str]) -> pd.DataFrame:
    """Returns a row per record: panel, model, mechanism, loss, x, seed and its scores."""
    rows = [
        {
            "panel": point["panel"], "model": record["model"], "mechanism": record["mechanism"],
            "loss": LOSSES.get(str(record["loss"]), str(record["loss"])), "x": point["x"],
            "seed": int(record["seed"]), **{score: record.get(score) for score in scores},
        }
        for point in points.to_dict("records")
        for record in point["records"]
    ]  # fmt: skip
    columns = ["panel", "model", "mechanism", "loss", "x", "seed", *scores]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("x", *scores), float))


def comparisons(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """Returns a row per data set, model, mechanism and eps: each loss, and marginal - unbiased.

    Columns: panel, model, mechanism, x, seeds, none, gap and gap_half_width (no privacy - plain),
    plain, unbiased, marginal, difference, half_width, p (corrected after Holm 1979 for all rows;
    NaN below two seeds). Differences are seed by seed.
    """
    rows = []
    private = table[table.x.notna()]
    for keys, group in private.groupby(["panel", "model", "mechanism", "x"], sort=False):
        panel, model, mechanism, x = keys
        by_seed = group.pivot_table(index="seed", columns="loss", values=score)
        bare = table[(table.panel == panel) & (table.model == model) & table.x.isna()]
        by_seed = by_seed.join(bare.set_index("seed")[score].rename("none"))
        if not {"plain", "unbiased", "marginal"} <= set(by_seed):
            continue
        by_seed = by_seed.dropna(subset=["plain", "unbiased", "marginal"])
        difference = from_seeds((by_seed.marginal - by_seed.unbiased).to_dict())
        gap = from_seeds((by_seed.none - by_seed.plain).dropna().to_dict())
        means = by_seed.mean()
        rows.append(
            {
                "panel": panel, "model": model, "mechanism": mechanism, "x": x,
                "seeds": len(by_seed), "none": means["none"],
                "gap": gap.value, "gap_half_width": gap.half_width,
                **{loss: means[loss] for loss in ("plain", "unbiased", "marginal")},
                "difference": difference.value, "half_width": difference.half_width,
                "p": difference.p if difference.error else math.nan,
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    if len(frame):
        frame["p"] = holm(frame.p.tolist())
    return frame


def _lines(axes: Axes, rows: pd.DataFrame) -> None:
    bare = rows[rows.x.isna()].y
    if len(bare):
        axes.axhline(bare.mean(), color=plotting.GREY, ls=":", label="no privacy")
    for (mechanism, loss), line in rows.dropna(subset="x").groupby(
        ["mechanism", "loss"], sort=False
    ):
        found = {
            x: from_seeds(dict(zip(own.seed, own.y, strict=True))) for x, own in line.groupby("x")
        }
        places, means = list(found), np.array([each.value for each in found.values()])
        # That of two seeds may be wider than all that is possible, and would set the axis.
        band = np.array([
            each.half_width if len(each.by_seed) >= SEEDS_OF_A_BAND else 0.0
            for each in found.values()
        ])  # fmt: skip
        colour = COLOURS[str(loss)]
        name = f"{name_of(str(mechanism))}, {loss}"
        dashes = DASHES.get(str(mechanism), "-.")
        axes.plot(places, means, dashes, marker="o", color=colour, label=name)
        axes.fill_between(places, means - band, means + band, color=colour, alpha=0.15, lw=0)


def _line(row: dict[str, Any]) -> dict[str, str]:
    is_known = row["gap"] > row["gap_half_width"]

    def closed(loss: str) -> str:
        share = (row[loss] - row["plain"]) / row["gap"] if is_known else math.nan
        return number_text(100 * share, "{:.0f} %")

    half = number_text(row["half_width"], " ± {:.4f}", unknown="")
    difference = f"{row['difference']:+z.4f}{half}"
    if is_significant(row["p"]):
        difference = f"**{difference}**"
    return {
        "data": row["panel"], "model": MODELS.get(row["model"], row["model"]),
        "release": name_of(row["mechanism"]), "eps": f"{row['x']:g}",
        "seeds": str(row["seeds"]), "no privacy": f"{row['none']:.3f}",
        "plain": f"{row['plain']:.3f}", "unbiased": f"{row['unbiased']:.3f}",
        "marginal": f"{row['marginal']:.3f}", "unbiased closed": closed("unbiased"),
        "marginal closed": closed("marginal"), "marginal - unbiased": difference,
        "p": number_text(row["p"], "{:.2g}"),
    }  # fmt: skip


def _others(table: pd.DataFrame) -> list[dict[str, str]]:
    rows = []
    keys = ["panel", "model", "mechanism", "loss"]
    for (panel, model, mechanism, loss), group in table.groupby(keys, sort=False):
        rows.append(
            {
                "data": str(panel), "model": MODELS.get(str(model), str(model)),
                "release": name_of(str(mechanism)), "loss": str(loss), "seeds": str(len(group)),
                **{name: f"{group[score].mean():.3f}" for score, name in OTHERS.items()},
            }
        )  # fmt: skip
    return rows


FIGURE = PaperFigure(
    name="tables/rare_events",
    title="Tables: AUC against eps, mean of ten seeds, each with its own split and noise",
    x=Axis("eps", "eps", "eps", log=True),
    y=Axis("auc", "AUC", "AUC on the test rows, %", scale=100),
    draw=draw_rare_events,
    bands=CAPTION,
    lines="method+model",
    panels="dataset",
    titles={
        "breast_cancer": "breast cancer: malignant, 37 %",
        "affairs": "survey: had an affair, 32 %",
        "rand_health": "survey: poor health, 1.5 %",
        "marriage": "survey: marriage, five classes",
        "flights": "flights: cancelled, 2.5 %",
    },
    note=(
        "Upper row linear scores, lower row boosted trees. Marriage is the mean AUC of five "
        "classes, each against the rest."
    ),
    notes=losses_compared,
)
