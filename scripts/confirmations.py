"""Tests what the frozen confirmations set out to confirm, from results/records.csv.

    python scripts/confirmations.py

For each of configs/experiment/confirmation one row per hypothesis, as its YAML states it: the
difference in points with the 95 % t interval, p from a t test, p after Holm for all hypotheses of
that file, and the verdict at 5 %. What is not run yet is said so. Seconds.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import Record
from labeldp_bench.reports.draws import average
from labeldp_bench.reports.naming import data_name_of
from labeldp_bench.reports.statistics import (
    PLUS_MINUS,
    SeedsEstimate,
    against_printed,
    from_seeds,
    holm,
    is_significant,
)

PRINTED = {
    ("mnist", 0.1): 10.9,
    ("fashion_mnist", 0.2): 51.3,
    ("fashion_mnist", 0.5): 75.7,
    ("cifar10", 0.2): 15.5,
}
"""The best printed local values that fresh_seeds names."""
KMNIST_PRINTED = 81.26
TEST_IMAGES = 10_000
TABLES = ("breast_cancer", "affairs", "rand_health", "marriage", "flights")
FUNCTIONS, GRAPHS = "eigenmaps", ("laplace_learning", "poisson_learning")
PROCESS = "graph_gaussian_process"
CIFAR10_AIM = 45.0


@dataclass(frozen=True)
class Hypothesis:
    """One thing to be confirmed: a difference in points that should be above 0."""

    text: str
    found: SeedsEstimate

    @property
    def seeds(self) -> int:
        """How many seeds, or pairs of them, there are."""
        return len(self.found.by_seed)


@dataclass(frozen=True)
class Runs:
    """The committed records of experiments, by what tells their cells apart."""

    records: Mapping[str, Record]
    cells: tuple[Cell, ...]

    @classmethod
    def of(cls, *names: str) -> "Runs":
        """Returns the runs of some experiments."""
        cells = [cell for name in names for cell in read_experiment(name).cells()]
        return cls(read_committed(), tuple(cells))

    def mean(self, score: str = "accuracy", **wanted: object) -> SeedsEstimate:
        """Returns a score, in percent, of the cells that have what is wanted, over seeds."""
        found = []
        for cell in self.cells:
            own = {
                "dataset": cell.dataset_name,
                "eps": float(cell.config["mechanism"].get("eps", math.inf)),
            }
            own |= {key: cell.choices.get(key) for key in ("mechanism", "model")}
            own["loss"] = cell.config["learner"].get("loss")
            record = self.records.get(cell.config_hash)
            if record is not None and all(own[key] == value for key, value in wanted.items()):
                found.append(record)
        return average(found, score).estimate.scaled(100)


def fresh_seeds() -> Iterable[Hypothesis]:
    """Yields: ours is ahead of each printed value, over seeds 5 to 14 alone."""
    runs = Runs.of("confirmation/fresh_seeds")
    for (dataset, eps), printed in PRINTED.items():
        ours = runs.mean(dataset=dataset, eps=eps)
        apart = against_printed(ours, printed, TEST_IMAGES)
        text = f"{data_name_of(dataset)}, eps={eps:g}: ours ahead of {printed}"
        yield Hypothesis(text, replace(apart, by_seed=ours.by_seed))


def cifar10_graphs() -> Iterable[Hypothesis]:
    """Yields: smooth functions are ahead of both graph baselines, paired by seed."""
    runs = Runs.of("confirmation/cifar10_graphs", "mechanisms/cifar10_features")
    for eps in (0.2, 0.5, 1.0):
        here: dict[str, Any] = {"dataset": "cifar10", "eps": eps, "mechanism": "subset_selection"}
        functions = runs.mean(**here, model=FUNCTIONS)
        for graph in GRAPHS:
            other = runs.mean(**here, model=graph)
            apart = functions.minus(other) if other.by_seed else from_seeds({})
            yield Hypothesis(f"eps={eps:g}: eigenmaps ahead of {graph}", apart)


def kmnist() -> Iterable[Hypothesis]:
    """Yields the three hypotheses of KMNIST, for each eps that they name."""
    runs = Runs.of("confirmation/kmnist")

    def mean(eps: float, mechanism: str, loss: str, model: str = "cnn") -> SeedsEstimate:
        return runs.mean(eps=eps, mechanism=mechanism, loss=loss, model=model)

    for eps in (0.2, 0.5, 1.0, 2.0):
        apart = mean(eps, "rappor", "marginal").minus(mean(eps, "rappor", "bce"))
        yield Hypothesis(f"eps={eps:g}: the marginal loss ahead of RAPPOR's own", apart)
    for eps in (0.2, 0.5):
        functions = mean(eps, "subset_selection", "bce", FUNCTIONS)
        apart = functions.minus(mean(eps, "subset_selection", "marginal"))
        yield Hypothesis(f"eps={eps:g}: smooth functions ahead of the CNN", apart)
    ours = mean(1.0, "subset_selection", "marginal")
    apart = against_printed(ours, KMNIST_PRINTED, TEST_IMAGES)
    text = f"eps=1: subset selection ahead of {KMNIST_PRINTED}"
    yield Hypothesis(text, replace(apart, by_seed=ours.by_seed))


def rare_events() -> Iterable[Hypothesis]:
    """Yields the eleven hypotheses of rare_events, on the normalised log-likelihood in percent."""
    runs, score = Runs.of("confirmation/rare_events"), "normalised_log_likelihood"
    for dataset, model in itertools.product(TABLES, ("logistic", "boosted_trees")):
        here = {"dataset": dataset, "model": model, "mechanism": "rr"}
        apart = runs.mean(score, **here, loss="marginal").minus(
            runs.mean(score, **here, loss="plain")
        )
        yield Hypothesis(f"{dataset}, {model}: the marginal loss ahead of the plain one", apart)
    here = {"dataset": "marriage", "model": "logistic", "loss": "marginal"}
    sets = runs.mean(score, **here, mechanism="subset_selection")
    apart = sets.minus(runs.mean(score, **here, mechanism="rr"))
    yield Hypothesis("marriage, logistic: subset selection ahead of RR", apart)


def gaussian_process() -> Iterable[Hypothesis]:
    """Yields: the process is ahead of three other models on the same releases, and of the aim."""
    runs = Runs.of("confirmation/gaussian_process", "confirmation/fresh_seeds")
    for dataset, eps, mechanism, other in (
        ("cifar10", 0.2, "subset_selection", "probe"),
        ("mnist", 0.1, "rappor", FUNCTIONS),
        ("fashion_mnist", 0.2, "rappor", "clusters"),
    ):
        here: dict[str, Any] = {"dataset": dataset, "eps": eps, "mechanism": mechanism}
        ours, theirs = runs.mean(**here, model=PROCESS), runs.mean(**here, model=other)
        apart = ours.minus(theirs) if ours.by_seed else from_seeds({})
        yield Hypothesis(f"{data_name_of(dataset)}, eps={eps:g}: ahead of {other}", apart)
    ours = runs.mean(dataset="cifar10", eps=0.2, model=PROCESS)
    above = {seed: value - CIFAR10_AIM for seed, value in ours.by_seed.items()}
    yield Hypothesis(f"CIFAR-10, eps=0.2: ahead of {CIFAR10_AIM:g}", from_seeds(above))


CONFIRMATIONS: dict[str, Callable[[], Iterable[Hypothesis]]] = {
    "fresh_seeds": fresh_seeds,
    "cifar10_graphs": cifar10_graphs,
    "kmnist": kmnist,
    "rare_events": rare_events,
    "gaussian_process": gaussian_process,
}


def verdicts(hypotheses: Iterable[Hypothesis]) -> pd.DataFrame:
    """Returns a row for each hypothesis; p after Holm for all of them, run or not."""
    all_of_them = list(hypotheses)
    known = [1.0 if math.isnan(each.found.p) else each.found.p for each in all_of_them]
    rows = []
    for each, corrected in zip(all_of_them, holm(known), strict=True):
        found = each.found
        # Of fewer shared seeds than a comparison by seed takes there is an interval too, Welch's.
        is_run = not math.isnan(found.half_width)
        ahead = is_significant(corrected) and found.value > 0
        seeds = each.seeds or ("Welch" if is_run else 0)
        row: dict[str, object] = {"hypothesis": each.text, "seeds": seeds}
        row["difference"] = f"{found.value:+z.1f} ± {found.half_width:.1f}" if is_run else "-"
        row["p"] = f"{found.p:.3g}" if is_run else "-"
        row["p, Holm"] = f"{corrected:.3g}" if is_run else "-"
        row["verdict"] = ("confirmed" if ahead else "not confirmed") if is_run else "not run"
        rows.append(row)
    return pd.DataFrame(rows)


def _progress(name: str) -> str:
    """Returns how many cells of a confirmation are run: a verdict on a part of them is none."""
    records = read_committed()
    cells = read_experiment(f"confirmation/{name}").cells()
    left = sum(cell.config_hash not in records for cell in cells)
    final = "the verdicts are final" if not left else f"{left} are not run: no verdict is final"
    return f"{len(cells)} cells; {final}."


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints a table for each confirmation."""
    read_arguments(arguments, {})
    for name, hypotheses in CONFIRMATIONS.items():
        print(f"confirmation/{name}\n")
        print(verdicts(hypotheses()).to_markdown(index=False, disable_numparse=True))
        print(f"\n{_progress(name)}\n")
    print(PLUS_MINUS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
