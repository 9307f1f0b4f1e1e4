"""The best known accuracy of each data set and eps: printed by any paper, and ours.

Rows where ours is behind stand there like the others.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.draws import Average, average
from labeldp_bench.reports.naming import setting_of, widths_of
from labeldp_bench.reports.statistics import (
    ENOUGH_SEEDS,
    NOTHING,
    SeedsEstimate,
    against_printed,
    holm,
    is_significant,
    pooled,
)
from papers.site.chosen import chosen_how, looks


class Ours(NamedTuple):
    """A kind of ours: what people call it, the column of its values, and that of print to beat."""

    name: str
    column: str
    rival: str


DATA_SETS = ("mnist", "fashion_mnist", "kmnist", "cifar10", "cifar100")
BUDGETS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
ON_A_GRAPH = (
    "eigenmaps", "clusters", "laplace_learning", "poisson_learning", "graph_gaussian_process",
)  # fmt: skip
WITH_FEATURES = ("probe", "ridge", *ON_A_GRAPH)
"""Models that learn from all unlabelled images before they see a release."""
TEST_IMAGES = 10_000
"""Of each of the official sets; a record of fewer is no candidate."""
KINDS = {
    "": Ours("ours", "ours", "printed_local"),
    "features_": Ours("ours, features", "ours_features", "printed_local"),
    "central_": Ours("ours, central", "ours_central", "printed_central"),
}
"""{prefix of a kind's other columns: the kind}."""
SAID = ("mechanism", "learner", "loss", "model", "pretrain")
"""Of a run, in this order."""
NOT_PRIVATE = ("none", "ple")


@dataclass(frozen=True)
class Best:
    """The best of ours of one kind at one data set and eps.

    Attributes:
        estimate: its accuracy in percent.
        record: one of its runs; None without any.
        rivals: the accuracies of all methods that it was chosen from.
    """

    estimate: SeedsEstimate = NOTHING
    record: Record | None = None
    rivals: Sequence[SeedsEstimate] = ()


def rows_of(records: Records, published: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per data set and eps at which anything is known.

    Columns: dataset, eps; printed_local and printed_central with `_eps`, `_trust`, `_here` (whether
    any is printed at this very eps) and `_by` (paper, table, method, note): a smaller eps
    guarantees this one too, and what is local needs no curator, so each is the best of all these;
    ours (at this very eps), mechanism, learner, loss, model,
    pretrain, setting (of LP-2ST), seeds, epochs, examples, budget, low, high, methods (that it was
    chosen from), p, chosen (how its parts were), looked (at test scores or labels, for that); the
    same with the prefixes `features_` and `central_`, whose values are `ours_features` and
    `ours_central`; ahead.
    Accuracies in percent; low and high are the ends of the 95 % interval.
    """
    found = best_of_ours(records)
    printed = published[
        (published.metric == "accuracy") & published.usable & ~published.method.isin(NOT_PRIVATE)
    ]
    is_central = printed.note.str.contains("central")
    printed = printed.assign(trust=is_central.map({True: "central", False: "local"}))
    rows = []
    for dataset, eps in itertools.product(DATA_SETS, BUDGETS):
        row: dict[str, object] = {"dataset": dataset, "eps": eps}
        known = printed[(printed.dataset == dataset) & (printed.eps <= eps)]
        for key, part in (("local", known[known.trust == "local"]), ("central", known)):
            row |= _printed(f"printed_{key}", part, eps)
        for prefix, kind in KINDS.items():
            best = found.get((dataset, eps, prefix), Best())
            # Print at smaller eps alone says little of this one: it is shown, and not tested.
            value = float(str(row[kind.rival])) if row[f"{kind.rival}_here"] else math.nan
            row |= {kind.column: best.estimate.value} | _about(prefix, best, value)
        if (known.eps == eps).any() or any(row[f"{prefix}methods"] for prefix in KINDS):
            rows.append(row)
    frame = pd.DataFrame(rows)
    corrected = holm([p for prefix in KINDS for p in frame[f"{prefix}p"]])
    for number, prefix in enumerate(KINDS):
        frame[f"{prefix}p"] = corrected[number * len(frame) : (number + 1) * len(frame)]
    frame["ahead"] = [_ahead(row) for row in frame.to_dict("records")]
    return frame


def best_of_ours(records: Records) -> Mapping[tuple[str, float, str], Best]:
    """Returns {(data set, eps, prefix of the kind): the best of ours}."""
    methods: dict[tuple[str, float, str], dict[str, list[Record]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in records.values():
        dataset, eps = str(record["dataset"]), float(record["eps"])
        is_whole = dataset in OFFICIAL and record.get("n_test") == TEST_IMAGES
        # Of several networks by one recipe the best is luck: all rows stand on the first.
        is_whole = is_whole and "pretrain.seed" not in record["identity"]
        if is_whole and eps in BUDGETS and record["trust"] in ("local", "central"):
            place = (dataset, eps, _kind(record))
            methods[place][all_but_seed(record["identity"])].append(record)
    found = {}
    for place, runs in methods.items():
        averages = [average(same, "accuracy") for same in runs.values()]
        most = max(len(each.kept) for each in averages)
        known = [each for each in averages if len(each.kept) >= min(most, ENOUGH_SEEDS)]
        best = max(known, key=_sure)
        rivals = [each.estimate.scaled(100) for each in known]
        found[place] = Best(best.estimate.scaled(100), best.kept[0], rivals)
    return found


def _sure(one: Average) -> float:
    """Returns the lower end of the interval: the highest mean would prefer few, lucky seeds."""
    estimate = one.estimate
    has_interval = len(one.kept) >= ENOUGH_SEEDS and not math.isnan(estimate.low)
    return estimate.low if has_interval else estimate.value


def _kind(record: Record) -> str:
    if record["trust"] == "central":
        return "central_"
    learnt = record.get("pretrain") not in (None, "none") or record["model"] in WITH_FEATURES
    return "features_" if learnt else ""


def _printed(key: str, part: pd.DataFrame, eps: float) -> dict[str, object]:
    ends = {"_eps": math.nan, "_trust": "", "_here": False, "_by": ""}
    if part.empty:
        return {key: math.nan, **{f"{key}{end}": nothing for end, nothing in ends.items()}}
    one = part.loc[part.value.idxmax()]
    note = f"; {one.note}" if one.note else ""
    return {
        key: one.value,
        f"{key}_eps": one.eps,
        f"{key}_trust": one.trust,
        f"{key}_here": bool((part.eps == eps).any()),
        f"{key}_by": f"{one.paper}, table {one.table}, {one.method}{note}",
    }


def _about(prefix: str, best: Best, printed: float) -> dict[str, object]:
    """Returns the other columns of one kind; p is not yet corrected for the table."""
    record = best.record or {}
    return {
        **{f"{prefix}{key}": record.get(key) for key in SAID},
        f"{prefix}setting": setting_of(record.get("identity", {})),
        f"{prefix}widths": widths_of(record.get("identity", {})),
        f"{prefix}chosen": chosen_how(record["identity"]) if record else "",
        f"{prefix}looked": bool(record and looks(record["identity"])),
        f"{prefix}seeds": len(best.estimate.by_seed),
        f"{prefix}epochs": record.get("epochs"),
        f"{prefix}examples": record.get("n_train"),
        f"{prefix}budget": record.get("budget") or (PAPER if record else None),
        f"{prefix}low": best.estimate.low,
        f"{prefix}high": best.estimate.high,
        f"{prefix}methods": len(best.rivals),
        f"{prefix}p": _p_of(best, printed),
    }


def _p_of(best: Best, printed: float) -> float:
    """Returns the p value that ours, or print, is ahead; NaN where it is unknown.

    Ours is ahead if any of its methods is: the least p counts as often as there are methods
    (Bonferroni). Print is ahead if it is so of every method: the largest p counts. All methods that
    are as accurate as print, else all, share one spread, and print's runs have it too: choosing
    favours those whose few runs agree by luck.
    """
    if best.record is None or math.isnan(printed):
        return math.nan
    known = [each for each in best.rivals if not math.isnan(each.error)]
    alike = pooled([each for each in known if each.value >= printed] or known)
    size = float(best.record["n_test"])
    gaps = [against_printed(each, printed, size, alike) for each in known]
    above = [gap.p for gap in gaps if gap.value > 0]
    if best.estimate.value > printed:
        return min([1.0, *(len(best.rivals) * p for p in above)]) if above else math.nan
    return 1.0 if above else max((gap.p for gap in gaps), default=math.nan)


def _ahead(row: Mapping[str, float]) -> str:
    """Returns who is ahead under local privacy; empty where there is nothing to compare."""
    known = {
        kind.column: prefix
        for prefix, kind in KINDS.items()
        if kind.rival == "printed_local" and not math.isnan(row[kind.column])
    }
    if not known or not row["printed_local_here"]:
        return ""
    sure = [key for key, prefix in known.items() if is_significant(row[f"{prefix}p"])]
    above = [key for key in sure if row[key] > row["printed_local"]]
    if above:
        return KINDS[known[above[0]]].name
    tested = [key for key, prefix in known.items() if not math.isnan(row[f"{prefix}p"])]
    if tested and tested == sure and max(row[key] for key in known) < row["printed_local"]:
        return "printed"
    if tested:
        return "unclear"
    higher = "ours" if max(row[key] for key in known) > row["printed_local"] else "printed"
    return f"untested, {higher} is higher"
