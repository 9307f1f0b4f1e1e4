"""Prints the numbers of docs/findings*.md that need no new run.

    python scripts/findings.py

From the library (rule for k, audit) and results/: published, records.csv, attacks.csv. A minute.
"""

import itertools
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from labeldp.audit.audit import exact_epsilon
from labeldp.mechanisms import RandomizedResponseWithPrior
from labeldp.support import seeding
from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.collect import COMMITTED, check_committed
from labeldp_bench.records.published import read_published
from labeldp_bench.reports.naming import method_name, name_of
from labeldp_bench.reports.rendering import mean_text
from labeldp_bench.reports.statistics import PLUS_MINUS, SeedsEstimate
from papers.site.differences import budgets_of, means_of, tested
from papers.site.tuned import IN_PRINT, OWN_LOSS, SOFT_LABEL

ATTACKS = COMMITTED.with_name("attacks.csv")
CLASSES = 10
PRIORS = 100_000
STATED_EPOCHS = 5
"""Of the recipe of Tables 1a and 1b."""
TABLES = ("vector_approximation/table1a", "vector_approximation/table1b")
QUICK_TABLES = ("vector_approximation/table2", "vector_approximation/table3", "blockrr/table3")


@dataclass(frozen=True)
class OthersFromAllClasses(RandomizedResponseWithPrior):
    """RRTop-k as a public code has it: the other label comes from all classes, not the top k."""

    def log_likelihood(
        self, released: Tensor, num_classes: int, prior: Tensor | None = None
    ) -> Tensor:
        """Returns log P(released | label = c), float64 (N, K), of a global prior."""
        assert prior is not None and prior.dim() == 1
        k = int(self.top_k(prior[None]))
        top = torch.zeros(num_classes, dtype=torch.bool)
        top[prior.argsort(descending=True)[:k]] = True
        keep = 1 / (1 + (k - 1) * math.exp(-self.eps))
        matrix = torch.full((num_classes, num_classes), (1 - keep) / (num_classes - 1))
        matrix = matrix.double().fill_diagonal_(keep)
        matrix[~top] = top.double() / k  # a label outside the top k: uniform over them
        return matrix[:, released].T.log()


WITH_SOFT_LABEL = tuple(SOFT_LABEL if method == "alibi" else method for method in OWN_LOSS)
"""The methods of Tables 1a and 1b, ALIBI as the vector paper describes it."""


def printed_in(table: str) -> pd.DataFrame:
    """Returns the usable values that a paper's table prints, such as those of `blockrr/table3`."""
    paper, _, number = table.partition("/table")
    printed = read_published(paper)
    return printed[(printed.table == number) & printed.usable]


def ranking() -> pd.DataFrame:
    """Returns who is first in print and with us, the means, and RAPPOR - ALIBI, in two readings."""
    rows, by_soft_label = [], "RAPPOR - ALIBI, soft label"
    for table in TABLES:
        ours = means_of(table, every_seed=True)
        printed = printed_in(table)
        for eps in budgets_of(ours):
            here = printed[(printed.eps == eps) & printed.method.isin(OWN_LOSS)]
            rows.append(
                {"table": table, "eps": eps,
                 "first in print": name_of(here.loc[here.value.idxmax(), "method"]),
                 "first of ours": _first(ours, eps, OWN_LOSS),
                 "first with soft label": _first(ours, eps, WITH_SOFT_LABEL)}
                | {method_name(method): mean_text(ours[method, eps])
                   for method in IN_PRINT}
                | {"RAPPOR - ALIBI": ours["rappor", eps].minus(ours["alibi", eps]),
                   by_soft_label: ours["rappor", eps].minus(ours[SOFT_LABEL, eps])}
            )  # fmt: skip
    return tested(pd.DataFrame(rows), ["RAPPOR - ALIBI", by_soft_label])


def _first(
    ours: Mapping[tuple[str, float], SeedsEstimate], eps: float, methods: Iterable[str]
) -> str:
    """Returns the method with the largest mean."""
    return method_name(max(methods, key=lambda method: ours[method, eps].value))


def losses() -> pd.DataFrame:
    """Returns what the marginal loss adds, and what RAPPOR in place of RR adds, by seed."""
    rows = []
    for table in TABLES:
        ours = means_of(table, every_seed=True)
        for eps in budgets_of(ours):
            rr, rappor = ours["rr", eps], ours["rappor", eps]
            rr_marginal, rappor_marginal = ours["rr+marginal", eps], ours["rappor+marginal", eps]
            rows.append(
                {"table": table, "eps": eps,
                 "marginal, RR": rr_marginal.minus(rr),
                 "marginal, RAPPOR": rappor_marginal.minus(rappor),
                 "RAPPOR for RR, own losses": rappor.minus(rr),
                 "RR marginal - RAPPOR own": rr_marginal.minus(rappor),
                 "RAPPOR marginal - ALIBI": rappor_marginal.minus(ours["alibi", eps]),
                 "ALIBI, own - soft label": ours["alibi", eps].minus(ours[SOFT_LABEL, eps])}
            )  # fmt: skip
    frame = pd.DataFrame(rows)
    # One family per claim: the loss in 20 cells, the loss against the mechanism in 10, and so on.
    frame = tested(frame, ["marginal, RR", "marginal, RAPPOR"])
    for column in (
        "RAPPOR for RR, own losses", "RR marginal - RAPPOR own", "RAPPOR marginal - ALIBI",
        "ALIBI, own - soft label",
    ):  # fmt: skip
        frame = tested(frame, [column])
    return frame


def small_networks() -> pd.DataFrame:
    """Returns each pair of methods on CIFAR at `budget=quick`; p: a family for each table."""
    frames = []
    for table in QUICK_TABLES:
        ours = means_of(table, budget="quick")
        printed = printed_in(table)
        values = printed.set_index(["method", "eps"]).value
        rows = [
            {"table": table, "eps": eps, "pair": f"{name_of(one)} - {name_of(two)}",
             "printed": values.get((one, eps), math.nan) - values.get((two, eps), math.nan),
             **{name: mean_text(ours[method, eps])
                for name, method in (("first", one), ("second", two))},
             "difference": ours[one, eps].minus(ours[two, eps])}
            for eps in budgets_of(ours)
            for one, two in itertools.combinations([m for m, at in ours if at == eps], 2)
        ]  # fmt: skip
        if rows:
            frames.append(tested(pd.DataFrame(rows), ["difference"]))
    return pd.concat(frames)


def rule_for_k() -> pd.DataFrame:
    """Returns how the released rule for k differs from the paper's, on Dirichlet(0.3) priors."""
    seed = seeding.generator(0, "findings")
    concentration = torch.full((PRIORS, CLASSES), 0.3, dtype=torch.float64)
    priors = torch._sample_dirichlet(concentration, generator=seed)
    ordered = priors.sort(1, descending=True).values.cumsum(1)
    uniform = torch.full((1, CLASSES), 1 / CLASSES, dtype=torch.float64)
    rows = []
    for eps in (0.5, 1.0, 2.0, 3.0, 4.0):
        rules = [RandomizedResponseWithPrior(eps, rule) for rule in ("paper", "released_code")]
        sizes = [rule.top_k(priors) for rule in rules]
        kept = [
            ordered.gather(1, k[:, None] - 1).squeeze(1) / (1 + (k - 1) * math.exp(-eps))
            for k in sizes
        ]
        rows.append(
            {
                "eps": eps,
                "priors with another k, %": 100 * float((sizes[0] != sizes[1]).double().mean()),
                "labels kept less, points": 100 * float((kept[0] - kept[1]).mean()),
                "k under a uniform prior: paper": int(rules[0].top_k(uniform)),
                "released": int(rules[1].top_k(uniform)),
            }
        )
    return pd.DataFrame(rows)


def public_multi_stage() -> pd.DataFrame:
    """Returns the exact eps of RRTop-k and of the public variant, enumerated, K=10."""
    rows = []
    for eps in (1.0, 2.0, 4.0):
        prior = torch.arange(1, CLASSES + 1, dtype=torch.float64) ** 2
        prior /= prior.sum()
        ours = RandomizedResponseWithPrior(eps)
        k = int(ours.top_k(prior[None]))
        rows.append(
            {
                "eps": eps,
                "k": k,
                "as published": exact_epsilon(ours, CLASSES, prior),
                "others from all classes": exact_epsilon(OthersFromAllClasses(eps), CLASSES, prior),
                "between two labels of the top k": eps + math.log((CLASSES - 1) / (k - 1)),
            }
        )
    return pd.DataFrame(rows)


def class_averages() -> pd.DataFrame:
    """Returns BlockRR's printed class averages minus those of RR and RRWithPrior, usable ones."""
    rows = read_published("blockrr")
    rows = rows[(rows.metric == "per_class_mean") & rows.usable]
    wide = rows.pivot(index=["dataset", "eps"], columns="method", values="value")
    return pd.DataFrame(
        {
            "blockrr - rr": wide.blockrr - wide.rr,
            "blockrr - rrwithprior": wide.blockrr - wide.rrwithprior,
        }
    ).reset_index()


def best_epoch() -> pd.DataFrame:
    """Returns what the best test epoch adds to the last one, in points, by budget; networks."""
    rows = pd.read_csv(COMMITTED)
    rows = rows[rows.best_epoch_accuracy.notna() & (rows.selection == "last")]
    rows = rows[rows.pretrain.fillna("none") == "none"]
    stated = rows.learner.isin(("single_stage", "multi_stage")) & (rows.epochs <= STATED_EPOCHS)
    rows = rows[stated]  # longer recipes and students flatter otherwise
    gap = 100 * (rows.best_epoch_accuracy - rows.accuracy)
    grouped = gap.groupby([rows.dataset, rows.eps])
    return grouped.agg(runs="size", mean="mean", largest="max").reset_index()


def matched_accuracy() -> pd.DataFrame:
    """Returns what a release of ple adds to an attacker, and one of a private method.

    For each cell of ple and each share of known labels: the private cell whose model is nearest in
    test accuracy (`results/attacks.csv`). Right guesses that only the release gives, in points.
    """
    rows = pd.read_csv(ATTACKS, dtype={"config_hash": str}).dropna(subset="accuracy")
    rows = rows.assign(accuracy=100 * rows.accuracy, additive=100 * rows.additive)
    bare = rows.guarantee == NO_GUARANTEE
    found = []
    for point in rows[bare].sort_values(["dataset", "accuracy", "known"]).to_dict("records"):
        rivals = rows[~bare & (rows.dataset == point["dataset"]) & (rows.known == point["known"])]
        if rivals.empty:
            continue
        nearest = rivals.loc[(rivals.accuracy - point["accuracy"]).abs().idxmin()]
        found.append(
            {
                "data": point["dataset"],
                "known, %": 100 * point["known"],
                "ple, no guarantee: accuracy": point["accuracy"],
                "its release adds": point["additive"],
                "nearest": f"{nearest.mechanism}, eps={nearest.eps:g}",
                "accuracy": nearest.accuracy,
                "adds": nearest.additive,
            }
        )
    return pd.DataFrame(found)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints one table per finding."""
    read_arguments(arguments, {})
    check_committed()
    parts = {
        "Tables 1a and 1b, every method with its paper's loss": ranking(),
        "Loss and mechanism in Tables 1a and 1b": losses(),
        "Methods on CIFAR by a small network (budget=quick)": small_networks(),
        "The released rule for k (K=10)": rule_for_k(),
        "RRTop-k with others from all classes (K=10, prior ~ (i + 1)^2)": public_multi_stage(),
        "BlockRR's class averages as printed": class_averages(),
        "Best test epoch minus last epoch": best_epoch(),
        "What a release adds to an attacker, at the nearest model accuracy": matched_accuracy(),
    }
    for title, frame in parts.items():
        text = frame.to_markdown(index=False, floatfmt="z.2f")
        print(f"## {title}\n\n{text}\n")
    print(
        f"{PLUS_MINUS} p: by pairs where three seeds or more are shared, else Welch's; after Holm "
        "for one claim: both columns of the marginal loss, a table of CIFAR, else one column."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
