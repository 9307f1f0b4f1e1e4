"""Losses on tables: scores of probabilities against eps, and what each loss wins over the plain."""

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.rendering import markdown_table, number_text
from labeldp_bench.reports.statistics import from_seeds
from papers.comparisons import LEVEL, holm, is_significant
from papers.figures import Axis, PaperFigure, style_axes

COLOURS = {"plain": plotting.BLUE, "unbiased": plotting.ORANGE, "marginal": plotting.GREEN}
"""{loss: colour}; softmax_bits, bits as if they were true, is called plain too."""
DASHES = {"rr": "-", "subset_selection": "--"}
MODELS = {"logistic": "linear", "boosted_trees": "trees"}
OTHERS = {
    "average_precision": "average precision",
    "normalised_log_likelihood": "log-likelihood",
    "calibration_error": "calibration error",
}
OTHERS_AT = 1.0
SEEDS_OF_A_BAND = 3
INTRO = """\
AUC, mean over seeds. *marginal - unbiased*: seed by seed, ± half the width of its 95 % t interval;
p: two-sided paired t test, corrected after Holm for the {count} comparisons of this page; **bold**
below {level:g}."""
MORE = """\
Other scores at eps={eps:g}: *log-likelihood* is normalised, 0 a constant model, 1 certain; below 0
the probabilities are worse than no model, as those of a model of *released* labels are."""
CAPTION = (
    "Bands: the 95 % t interval over three seeds or more. Dotted: no privacy. Dashed: subset "
    "selection, which for two classes is RR."
)


def draw_rare_events(points: pd.DataFrame, figure: PaperFigure) -> Figure:
    """Returns lines over eps; the panels of a data set share their range."""
    panels = list(dict.fromkeys(points.panel))
    drawn, axes = plotting.new_figure(len(panels), rows=len(MODELS), height=3.3)
    models = points.cell.map(lambda cell: cell.identity["model"])
    for column, panel in zip(axes.T, panels, strict=True):
        for place, (model, name) in zip(column, MODELS.items(), strict=True):
            place.set_title(f"{figure.panel_title(panel)}, {name}")
            style_axes(place, figure.x, figure.y, sorted(points.x.dropna().unique()))
            _draw_lines(place, points[(points.panel == panel) & (models == model) & (points.n > 0)])
        plotting.share_y(list(column))
    axes[0][0].legend(fontsize=8.5, loc="lower right", frameon=False)
    return drawn


def _draw_lines(axes: Axes, points: pd.DataFrame) -> None:
    for y in points.y[points.x.isna()]:
        axes.axhline(y, color=plotting.GREY, ls=":", label="no privacy")
    for _, line in points.dropna(subset="x").groupby("line", sort=False):
        line = line.sort_values("x")
        # That of two seeds may be wider than all that is possible, and would set the axis.
        band = line.error.where(line.n >= SEEDS_OF_A_BAND, 0.0)
        mechanism, loss = line.mechanism.iloc[0], _loss_of(line.records.iloc[0][0]["loss"])
        style, name = DASHES.get(mechanism, "-."), f"{name_of(mechanism)}, {loss}"
        axes.plot(line.x, line.y, style, marker="o", color=COLOURS[loss], label=name)
        low, high = line.y - band, line.y + band
        axes.fill_between(line.x, low, high, color=COLOURS[loss], alpha=0.15, lw=0)


def losses_compared(points: pd.DataFrame, figure: PaperFigure) -> list[str]:
    """Returns the comparison of losses and the other scores, Markdown."""
    table = scores_by_seed(points, (figure.y.key, *OTHERS))
    compared = comparisons(table, figure.y.key)
    if compared.empty:
        return []
    intro = INTRO.format(count=compared.p.count(), level=LEVEL)
    others = _others(table[(table.x == OTHERS_AT) | table.x.isna()])
    parts = [intro, _spelled(compared), MORE.format(eps=OTHERS_AT), others]
    return [part if isinstance(part, str) else markdown_table(part) for part in parts]


def scores_by_seed(points: pd.DataFrame, scores: Sequence[str]) -> pd.DataFrame:
    """Returns a row per record: panel, x, model, mechanism, loss, seed and its scores."""
    rows = [
        {"panel": panel, "x": x, "loss": _loss_of(record["loss"]), "seed": int(record["seed"])}
        | {key: record.get(key) for key in ("model", "mechanism", *scores)}
        for panel, x, records in zip(points.panel, points.x, points.records, strict=True)
        for record in records
    ]
    columns = ["panel", "x", "model", "mechanism", "loss", "seed", *scores]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("x", *scores), float))


def _loss_of(loss: object) -> str:
    return "plain" if loss == "softmax_bits" else str(loss)


def comparisons(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """Returns a row per data set, model, mechanism and eps: each loss, and marginal - unbiased.

    Columns: panel, model, mechanism, x, seeds, none (no privacy), plain, unbiased, marginal,
    difference, half_width, p (corrected after Holm 1979 for all rows; NaN below two seeds).
    Differences are seed by seed.
    """
    rows = []
    keys = ["panel", "model", "mechanism", "x"]
    for place, group in table[table.x.notna()].groupby(keys, sort=False):
        panel, model, *_ = place
        by_seed = group.pivot_table(index="seed", columns="loss", values=score)
        bare = table[(table.panel == panel) & (table.model == model) & table.x.isna()]
        by_seed = by_seed.join(bare.set_index("seed")[score].rename("none"))
        if not set(COLOURS) <= set(by_seed):
            continue
        by_seed = by_seed.dropna(subset=[*COLOURS])
        difference = from_seeds((by_seed.marginal - by_seed.unbiased).to_dict())
        rows.append(
            dict(zip(keys, place, strict=True))
            | by_seed[["none", *COLOURS]].mean().to_dict()
            | {"seeds": len(by_seed), "difference": difference.value}
            | {"half_width": difference.half_width}
            | {"p": difference.p if difference.error else math.nan}
        )
    frame = pd.DataFrame(rows)
    return frame.assign(p=holm(frame.p.tolist())) if len(frame) else frame


def _spelled(compared: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of `comparisons` as texts."""
    means = {loss: compared[loss].map("{:.3f}".format) for loss in COLOURS}
    differences = [
        f"{mean:+z.4f}" + number_text(half, " ± {:.4f}", unknown="")
        for mean, half in zip(compared.difference, compared.half_width, strict=True)
    ]
    bold = ["**" * is_significant(p) for p in compared.p]
    return pd.DataFrame(
        {
            "data": compared.panel,
            "model": compared.model.map(lambda model: MODELS.get(model, model)),
            "release": compared.mechanism.map(name_of),
            "eps": compared.x.map("{:g}".format),
            "seeds": compared.seeds.map(str),
            "no privacy": compared.none.map("{:.3f}".format),
            **means,
            "marginal - unbiased": [f"{b}{d}{b}" for b, d in zip(bold, differences, strict=True)],
            "p": [number_text(p, "{:.2g}") for p in compared.p],
        }
    )


def _others(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the means of the other scores as texts."""
    keys = ["panel", "model", "mechanism", "loss"]
    groups = table.groupby(keys, sort=False)
    means = groups[[*OTHERS]].mean().map("{:.3f}".format).rename(columns=OTHERS)
    means.insert(0, "seeds", groups.size().map(str))
    rows = means.reset_index().rename(columns={"panel": "data", "mechanism": "release"})
    named = {"model": rows.model.map(lambda model: MODELS.get(model, model))}
    return rows.assign(**named, release=rows.release.map(name_of))


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
