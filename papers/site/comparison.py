"""Mechanisms and losses by their mean rank over data sets: page and picture of a comparison.

After Demsar (2006), "Statistical comparisons of classifiers over multiple data sets", JMLR 7:
Friedman's test over data sets, then Nemenyi's critical difference between mean ranks.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import papers
from labeldp_bench.records.record import Records
from labeldp_bench.reports import plotting
from labeldp_bench.reports.naming import name_of
from papers import tables

STEM = "comparison"
BUDGETS = (0.5, 1.0, 2.0)
OWN_LOSSES = {
    "rr": "plain", "rappor": "bce", "unary": "bce", "oue": "bce", "subset_selection": "bce",
    "alibi": None, "hadamard": None, "local_hashing": None, "optimal": None,
}  # fmt: skip
"""{mechanism: the loss of its paper, None where that is the likelihood's}."""
LIKELIHOOD, OWN = "marginal", "own"
EQUAL_TO_RR = ("subset_selection", "optimal")
"""Mechanisms that are randomised response where there are two classes, and are not run there."""
LOSS_NAMES = {
    OWN: "released value as target",
    LIKELIHOOD: "likelihood of the release",
    "unbiased": "unbiased squares",
    "soft_label": "fixed soft label",
}
TITLE = "Subset selection has the best mean rank at every eps; no loss is told from another"
CAPTION = (
    "Mean ranks over {count} data sets; 1 is best. Above: mechanisms, each learned by the "
    "likelihood of its release; below: losses, "
    "means over the five mechanisms that have all four. A linear model on fixed features, mean "
    "accuracy of {seeds} seeds. Band: Nemenyi's critical difference from the best at 5 %; methods "
    "inside cannot be told from it. p: Friedman's test. All rows: results/tables/comparison.csv."
)


class Ranks(NamedTuple):
    """Mean ranks of methods over data sets.

    Attributes:
        means: {method: mean rank}, the best first; 1 is the best, ties share their mean.
        p: of Friedman's test that all methods are equal.
        critical: two methods differ at 5 % if their means differ by more (Nemenyi).
    """

    means: pd.Series
    p: float
    critical: float


def ranks_of(accuracy: pd.DataFrame) -> Ranks:
    """Returns mean ranks.

    Args:
        accuracy: a row per data set, a column per method, at least three of each; none missing.

    >>> ranks_of(pd.DataFrame({"a": [3, 3, 3], "b": [2, 2, 1], "c": [1, 1, 2]})).means.to_dict()
    {'a': 1.0, 'b': 2.3333333333333335, 'c': 2.6666666666666665}
    """
    count, k = accuracy.shape
    means = accuracy.rank(axis=1, ascending=False).mean().sort_values()
    p = float(stats.friedmanchisquare(*(accuracy[name] for name in accuracy)).pvalue)
    quantile = stats.studentized_range.ppf(0.95, k, math.inf) / math.sqrt(2)
    critical = float(quantile * math.sqrt(k * (k + 1) / (6 * count)))
    return Ranks(means, p, critical)


def losses_of(mechanism: str) -> list[str]:
    """Returns the losses of a mechanism; `optimal` has no unbiased estimate."""
    own = OWN_LOSSES[mechanism]
    unbiased = [] if mechanism == "optimal" else ["unbiased"]
    return [*([own] if own else []), LIKELIHOOD, *unbiased, "soft_label"]


def mechanisms_of(num_classes: int) -> list[str]:
    """Returns the mechanisms that differ for K classes."""
    return [name for name in OWN_LOSSES if num_classes > 2 or name not in EQUAL_TO_RR]


def by_mechanism(rows: pd.DataFrame, eps: float) -> pd.DataFrame:
    """Returns accuracy by the likelihood, a row per data set and a column per mechanism."""
    own = rows[(rows.eps == eps) & (rows.loss == LIKELIHOOD)]
    table = own.pivot(index="dataset", columns="mechanism", values="accuracy")
    for name in EQUAL_TO_RR:
        table[name] = table[name].fillna(table["rr"])
    return table


def by_loss(rows: pd.DataFrame, eps: float) -> pd.DataFrame:
    """Returns mean accuracy over mechanisms with all four losses, a column per loss."""
    own = rows[(rows.eps == eps) & rows.mechanism.map(OWN_LOSSES).notna()]
    is_own = own.loss == own.mechanism.map(OWN_LOSSES)
    own = own.assign(loss=own.loss.mask(is_own, OWN))
    return own.pivot_table(index="dataset", columns="loss", values="accuracy")


def summary(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per combination: accuracy in percent, its standard deviation, seeds.

    Args:
        runs: dataset, mechanism, loss, eps, seed, accuracy (a fraction).
    """
    keys = ["dataset", "mechanism", "loss", "eps"]
    found = runs.assign(accuracy=100 * runs.accuracy).groupby(keys, sort=False).accuracy
    # Rounded: equal counts of hits are to tie, whatever the order of a sum.
    return found.agg(accuracy="mean", std="std", seeds="size").round(4).reset_index()


def draw(rows: pd.DataFrame) -> Figure:
    """Returns the picture of the rows of results/tables/comparison.csv."""
    figure, grid = plotting.new_figure(len(BUDGETS), 2, height=2.7)
    figure.set_figwidth(12.5)
    for place, eps in enumerate(BUDGETS):
        for axes, ranks, names in (
            (grid[0, place], ranks_of(by_mechanism(rows, eps)), None),
            (grid[1, place], ranks_of(by_loss(rows, eps)), LOSS_NAMES),
        ):
            _draw_ranks(axes, ranks, names)
            axes.set_title(f"eps={eps:g} (p={ranks.p:.2g})")
    for axes in grid[1]:
        axes.set_xlabel("mean rank")
    caption = CAPTION.format(seeds=rows.seeds.min(), count=rows.dataset.nunique())
    plotting.title_and_caption(figure, TITLE, caption)
    return figure


def _draw_ranks(axes: plotting.Axes, ranks: Ranks, names: dict[str, str] | None) -> None:
    best = ranks.means.iloc[0]
    axes.axvspan(best, best + ranks.critical, color=plotting.GREY, alpha=0.15, linewidth=0)
    texts: Sequence[str] = [names[key] if names else name_of(key) for key in ranks.means.index]
    for y, (key, mean) in enumerate(ranks.means.items()):
        colour = plotting.BLACK if names else plotting.colour_of(str(key))
        axes.plot(mean, y, "o", color=colour, markersize=7)
    axes.set_yticks(range(len(texts)), texts)
    axes.invert_yaxis()
    axes.set_xlim(0.8, len(texts) + 0.2)


def read_rows() -> pd.DataFrame:
    """Returns the committed rows."""
    return pd.read_csv(tables.TABLES / f"{STEM}.csv")


def write_picture(out: Path = papers.FIGURES) -> Path:
    """Writes the picture of the committed rows; returns its path."""
    path = out / f"{STEM}.png"
    plotting.save(draw(read_rows()), path)
    return path


def write_comparison(runs: pd.DataFrame) -> Path:
    """Writes the rows and the picture of the runs that `summary` takes; returns the rows' path."""
    path = tables.TABLES / f"{STEM}.csv"
    tables.write_csv(path, summary(runs), digits=8)
    write_picture()
    return path


def ranks_page(records: Records) -> pd.DataFrame:
    """Returns the page's rows from the committed ones: table, name, rank, accuracy."""
    rows, found = read_rows(), []
    for title, table_of, names in (
        ("Mechanisms", by_mechanism, {}),
        ("Losses", by_loss, LOSS_NAMES),
    ):
        for eps in BUDGETS:
            table = table_of(rows, eps)
            ranks = ranks_of(table)
            here = (
                f"{title}, eps={eps:g}; p={ranks.p:.2g}; critical difference {ranks.critical:.2f}"
            )
            found += [
                {"table": here, "name": names.get(key) or name_of(key), "rank": mean}
                | {
                    "data_sets": len(table),
                    "seeds": rows.seeds.min(),
                    "accuracy": table[key].mean(),
                }
                for key, mean in ranks.means.items()
            ]
    return pd.DataFrame(found)
