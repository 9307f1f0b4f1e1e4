"""Differences between pairs of methods: the CSV files behind docs/findings.md."""

import itertools
import math
from collections import defaultdict

import pandas as pd

from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.naming import name_of
from labeldp_bench.reports.statistics import TESTED, Pair, SeedsEstimate, average, differences
from papers.tables import accuracy_table

SOFT_LABEL = "alibi+soft_label"
"""ALIBI with one soft label, equation 29 of the vector paper, which may be what it published."""
RANKED = ("rr", "rappor", "alibi", SOFT_LABEL, "lp_2st")
"""The methods whose order the vector paper publishes."""
Families = dict[str, tuple[tuple[str, str], ...]]
FAMILIES: Families = {
    "ranking": (("rappor", "alibi"), ("rappor", SOFT_LABEL)),
    "loss": (("rr+marginal", "rr"), ("rappor+marginal", "rappor")),
    "loss or mechanism": (("rr+marginal", "rappor"),),
    "bits or vector": (("rappor+marginal", "alibi"),),
    "same releases": (("alibi", SOFT_LABEL),),
}
"""{question: pairs of methods whose difference answers it}; their tests are corrected together."""
ORDER: Families = {
    f"RAPPOR or {name_of(other)}, on features": (("rappor", other),)
    for other in ("lp_1st", "lp_2st", "alibi")
}
BLOCKS: Families = {
    "BlockRR or RR, on features": (("blockrr", "rr"),),
    "BlockRR or RRWithPrior, on features": (("blockrr", "rrwithprior"),),
}
COMPARED: dict[str, tuple[str, str, Families]] = {
    "vector_approximation/table1a": ("MNIST", PAPER, FAMILIES),
    "vector_approximation/table1b": ("Fashion-MNIST", PAPER, FAMILIES),
    "vector_approximation/table2": ("CIFAR-10", "features", ORDER),
    "vector_approximation/table3": ("CIFAR-100", "features", ORDER),
    "blockrr/table3": ("CIFAR-10_1", "features", BLOCKS),
    "blockrr/table4": ("CIFAR-10_1, class average", "features", BLOCKS),
    "blockrr/table5": ("CIFAR-10_2", "features", BLOCKS),
    "blockrr/table6": ("CIFAR-10_2, class average", "features", BLOCKS),
}
"""{table: its data and metric for people, the budget of the runs that are compared, questions}."""


def differences_of(records: Records) -> pd.DataFrame:
    """Returns family, dataset, eps, method, other, difference, low, high, pairs, p, significant.

    A row per data set, eps and pair of `COMPARED`. Differences in points of what the table's rows
    have, by seed where seeds are shared (`pairs`), with their 95 % interval; p is corrected after
    Holm within the family.
    """
    pairs = []
    for table, (data, budget, families) in COMPARED.items():
        ours = means_of(table, records, budget)
        budgets = sorted({eps for _, eps in ours if math.isfinite(eps)})
        for (family, methods), eps in itertools.product(families.items(), budgets):
            for method, other in methods:
                if {(method, eps), (other, eps)} <= ours.keys():
                    place = {"family": family, "dataset": data, "eps": eps}
                    place |= {"method": method, "other": other}
                    pairs.append(Pair(place, ours[method, eps], ours[other, eps]))
    rows = differences(pairs, family="family")
    return rows.rename(columns={"difference_low": "low", "difference_high": "high"})


def means_of(
    experiment: str, records: Records, budget: str
) -> dict[tuple[str, float], SeedsEstimate]:
    """Returns {(method, eps): accuracy in percent, as its rows have it} of a paper's table.

    Runs of other experiments count too that differ in nothing but the seed.
    """
    alike: dict[str, dict[str, Record]] = defaultdict(dict)
    for name, record in records.items():
        alike[all_but_seed(record["identity"])][name] = record
    table = accuracy_table(experiment)
    runs: dict[tuple[str, float], dict[str, Record]] = defaultdict(dict)
    for cell in table.experiment.cells(budget):
        eps = float(cell.identity.get("mechanism.eps", math.inf))
        runs[table.method_of(cell), eps] |= alike[all_but_seed(cell.identity)]
    found = {
        place: average(list(same.values()), table.metric) for place, same in runs.items() if same
    }
    return {place: each.estimate.scaled(100) for place, each in found.items()}


def order_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per data set, eps and pair of `RANKED`: method - other, all in points.

    As published, as stated, and `difference` when tuned, whose p is corrected after Holm for all
    pairs. The two readings of ALIBI are one published row, and so no pair.

    Args:
        rows: of the page tuned_vs_stated.
    """
    place = ["dataset", "eps", "recipe"]
    pairs = [
        Pair(dict(zip(place, where, strict=True)) | {"method": one, "other": two}, at[one], at[two])
        for where, group in rows[rows.n > 0].groupby(place, sort=False)
        for at in [dict(zip(group.method, group.estimate, strict=True))]
        for one, two in itertools.combinations(RANKED, 2)
        if {one, two} <= at.keys() and (one, two) != ("alibi", SOFT_LABEL)
    ]
    keys = ["dataset", "eps", "method", "other"]
    if not pairs:
        return pd.DataFrame(columns=[*keys, *TESTED])
    found = differences(pairs, family="recipe").set_index(keys)
    printed, stated, tuned = (
        found[found.recipe == name] for name in ("published", "stated", "tuned")
    )
    ends = {key: key.replace("difference", "stated") for key in TESTED[:3]}
    columns = [printed.difference.rename("published"), stated[[*ends]].rename(columns=ends)]
    return tuned[[]].join([*columns, tuned[[*TESTED]]]).reset_index()
