"""Mechanisms and losses by their mean rank over data sets: page and picture of a comparison.

After Demsar (2006), "Statistical comparisons of classifiers over multiple data sets", JMLR 7:
Friedman's test over data sets, then Nemenyi's critical difference between mean ranks.
"""

import math
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

import papers
from labeldp.support.validate import InputError
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
MECHANISMS = "mechanisms"
TITLE = "Subset selection has the best mean rank at every eps; no loss is told from another"
CAPTION = (
    "Mean ranks over {count} data sets; 1 is best. Above: mechanisms, each learned by the "
    "likelihood of its release; below: losses, "
    "means over the five mechanisms that have all four. A linear model on fixed features, mean "
    "accuracy of {seeds} seeds. Band: Nemenyi's critical difference from the best at 5 %; methods "
    "inside cannot be told from it. p: Friedman's test. All rows: results/tables/comparison.csv."
)


def ranks_of(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Returns mean ranks of methods over data sets.

    Args:
        accuracy: a row per data set, a column per method, at least three of each; none missing.

    Returns:
        A row per method, the best first: rank (1 is the best, ties share their mean); accuracy, the
        mean; and the same in each row p, of Friedman's test that all methods are equal, and
        critical: two methods differ at 5 % if their mean ranks differ by more (Nemenyi).

    >>> ranks_of(pd.DataFrame({"a": [3, 3, 3], "b": [2, 2, 1], "c": [1, 1, 2]}))["rank"].to_dict()
    {'a': 1.0, 'b': 2.3333333333333335, 'c': 2.6666666666666665}
    """
    count, k = accuracy.shape
    found = pd.DataFrame({"rank": accuracy.rank(axis=1, ascending=False).mean()})
    p = float(stats.friedmanchisquare(*(accuracy[name] for name in accuracy)).pvalue)
    quantile = stats.studentized_range.ppf(0.95, k, math.inf) / math.sqrt(2)
    critical = float(quantile * math.sqrt(k * (k + 1) / (6 * count)))
    found = found.assign(accuracy=accuracy.mean(), p=p, critical=critical, data_sets=count)
    return found.sort_values("rank")


def losses_of(mechanism: str) -> list[str]:
    """Returns the losses of a mechanism; `optimal` has no unbiased estimate."""
    own = OWN_LOSSES[mechanism]
    unbiased = [] if mechanism == "optimal" else ["unbiased"]
    return [*([own] if own else []), LIKELIHOOD, *unbiased, "soft_label"]


def mechanisms_of(num_classes: int) -> list[str]:
    """Returns the mechanisms that differ for K classes."""
    return [name for name in OWN_LOSSES if num_classes > 2 or name not in EQUAL_TO_RR]


def by_mechanism(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns accuracy by the likelihood, a row per data set and a column per mechanism."""
    own = rows[rows.loss == LIKELIHOOD]
    table = own.pivot(index="dataset", columns="mechanism", values="accuracy")
    for name in EQUAL_TO_RR:
        table[name] = table[name].fillna(table["rr"])
    return table


def by_loss(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns mean accuracy over mechanisms with all four losses, a column per loss."""
    own = rows[rows.mechanism.map(OWN_LOSSES).notna()]
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


def ranks_page(records: Records | None = None) -> pd.DataFrame:
    """Returns ranks of the committed rows: table, eps, key, name, seeds, and as `ranks_of`."""
    rows, found = read_rows(), []
    for table, accuracy_of in ((MECHANISMS, by_mechanism), ("losses", by_loss)):
        for eps in BUDGETS:
            ranks = ranks_of(accuracy_of(rows[rows.eps == eps])).rename_axis("key").reset_index()
            names = [LOSS_NAMES.get(key) or name_of(key) for key in ranks.key]
            found.append(ranks.assign(table=table, eps=eps, name=names, seeds=rows.seeds.min()))
    return pd.concat(found, ignore_index=True)


def draw(ranks: pd.DataFrame) -> Figure:
    """Returns the picture of the rows of `ranks_page`."""
    figure, grid = plotting.new_figure(len(BUDGETS), 2, height=2.7)
    figure.set_figwidth(12.5)
    panels = ranks.groupby(["table", "eps"], sort=False)
    for axes, ((table, eps), own) in zip(grid.flat, panels, strict=True):
        best = own.iloc[0]
        band = best["rank"], best["rank"] + best.critical
        axes.axvspan(*band, color=plotting.GREY, alpha=0.15, linewidth=0)
        for y, (key, mean) in enumerate(zip(own.key, own["rank"], strict=True)):
            colour = plotting.colour_of(key) if table == MECHANISMS else plotting.BLACK
            axes.plot(mean, y, "o", color=colour, markersize=7)
        axes.set_yticks(range(len(own)), own.name)
        axes.invert_yaxis()
        axes.set_xlim(0.8, len(own) + 0.2)
        axes.set_title(f"eps={eps:g} (p={best.p:.2g})")
    for axes in grid[1]:
        axes.set_xlabel("mean rank")
    caption = CAPTION.format(seeds=best.seeds, count=best.data_sets)
    plotting.title_and_caption(figure, TITLE, caption)
    return figure


def read_rows() -> pd.DataFrame:
    """Returns the committed rows.

    Raises:
        InputError: the file is not there.
    """
    if not (path := tables.TABLES / f"{STEM}.csv").is_file():
        raise InputError(
            f"there is no {path} (bring it back by `git checkout`, or run "
            "`python scripts/compare_mechanisms.py` where you have the data)"
        )
    return pd.read_csv(path)


def write_picture(out: Path = papers.FIGURES) -> Path:
    """Writes the picture of the committed rows; returns its path."""
    path = out / f"{STEM}.png"
    plotting.save(draw(ranks_page()), path)
    return path


def write_comparison(runs: pd.DataFrame) -> Path:
    """Writes the rows and the picture of the runs that `summary` takes; returns the rows' path."""
    path = tables.TABLES / f"{STEM}.csv"
    tables.write_csv(path, summary(runs), digits=8)
    write_picture()
    return path
