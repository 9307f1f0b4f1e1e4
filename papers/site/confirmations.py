"""What the frozen confirmations set out to confirm (configs/experiment/confirmation), judged.

Each hypothesis, as its YAML states it, is a difference in points that should be above 0. p is from
a t test, then after Holm for all hypotheses of that file, run or not; the verdict is at 5 %.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.record import Records
from labeldp_bench.reports.naming import data_name_of
from labeldp_bench.reports.rendering import markdown_table
from labeldp_bench.reports.statistics import NOTHING, PLUS_MINUS, SeedsEstimate, average, from_seeds
from papers.comparisons import against_printed, holm, is_significant

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
Hypotheses = Iterator[tuple[str, SeedsEstimate]]
"""Each a text and a difference in points."""


def mean(
    records: Records, experiments: Sequence[str], score: str = "accuracy", **wanted: object
) -> SeedsEstimate:
    """Returns a score, in percent, of the cells of experiments that have what is wanted."""
    found = []
    for cell in (cell for name in experiments for cell in read_experiment(name).cells()):
        own = {
            "dataset": cell.dataset_name,
            "eps": float(cell.config["mechanism"].get("eps", math.inf)),
            "mechanism": cell.choices.get("mechanism"),
            "model": cell.choices.get("model"),
            "loss": cell.config["learner"].get("loss"),
        }
        if cell.config_hash in records and all(own[key] == wanted[key] for key in wanted):
            found.append(records[cell.config_hash])
    return average(found, score).estimate.scaled(100)


def fresh_seeds(records: Records) -> Hypotheses:
    """Yields: ours is ahead of each printed value, over seeds 5 to 14 alone."""
    for (dataset, eps), printed in PRINTED.items():
        ours = mean(records, ["confirmation/fresh_seeds"], dataset=dataset, eps=eps)
        text = f"{data_name_of(dataset)}, eps={eps:g}: ours ahead of {printed}"
        yield text, _above_printed(ours, printed)


def cifar10_graphs(records: Records) -> Hypotheses:
    """Yields: smooth functions are ahead of both graph baselines, paired by seed."""
    names = ("confirmation/cifar10_graphs", "mechanisms/cifar10_features")
    of = partial(mean, records, names, dataset="cifar10", mechanism="subset_selection")
    for eps, graph in itertools.product((0.2, 0.5, 1.0), GRAPHS):
        apart = _minus(of(eps=eps, model=FUNCTIONS), of(eps=eps, model=graph))
        yield f"eps={eps:g}: eigenmaps ahead of {graph}", apart


def kmnist(records: Records) -> Hypotheses:
    """Yields the three hypotheses of KMNIST, for each eps that they name."""
    of = partial(mean, records, ["confirmation/kmnist"])
    network = partial(of, mechanism="subset_selection", loss="marginal", model="cnn")
    rappor = partial(of, mechanism="rappor", model="cnn")
    for eps in (0.2, 0.5, 1.0, 2.0):
        apart = _minus(rappor(eps=eps, loss="marginal"), rappor(eps=eps, loss="bce"))
        yield f"eps={eps:g}: the marginal loss ahead of RAPPOR's own", apart
    for eps in (0.2, 0.5):
        functions = of(eps=eps, mechanism="subset_selection", loss="bce", model=FUNCTIONS)
        yield f"eps={eps:g}: smooth functions ahead of the CNN", _minus(functions, network(eps=eps))
    text = f"eps=1: subset selection ahead of {KMNIST_PRINTED}"
    yield text, _above_printed(network(eps=1.0), KMNIST_PRINTED)


def rare_events(records: Records) -> Hypotheses:
    """Yields the eleven hypotheses of rare_events, on the normalised log-likelihood in percent."""
    of = partial(mean, records, ["confirmation/rare_events"], "normalised_log_likelihood")
    for dataset, model in itertools.product(TABLES, ("logistic", "boosted_trees")):
        here = partial(of, dataset=dataset, model=model, mechanism="rr")
        text = f"{dataset}, {model}: the marginal loss ahead of the plain one"
        yield text, _minus(here(loss="marginal"), here(loss="plain"))
    here = partial(of, dataset="marriage", model="logistic", loss="marginal")
    sets = here(mechanism="subset_selection")
    yield "marriage, logistic: subset selection ahead of RR", _minus(sets, here(mechanism="rr"))


def gaussian_process(records: Records) -> Hypotheses:
    """Yields: the process is ahead of three other models on the same releases, and of the aim."""
    of = partial(mean, records, ["confirmation/gaussian_process", "confirmation/fresh_seeds"])
    for dataset, eps, mechanism, other in (
        ("cifar10", 0.2, "subset_selection", "probe"),
        ("mnist", 0.1, "rappor", FUNCTIONS),
        ("fashion_mnist", 0.2, "rappor", "clusters"),
    ):
        here = partial(of, dataset=dataset, eps=eps, mechanism=mechanism)
        apart = _minus(here(model=PROCESS), here(model=other))
        yield f"{data_name_of(dataset)}, eps={eps:g}: ahead of {other}", apart
    ours = of(dataset="cifar10", eps=0.2, model=PROCESS)
    above = {seed: value - CIFAR10_AIM for seed, value in ours.by_seed.items()}
    yield f"CIFAR-10, eps=0.2: ahead of {CIFAR10_AIM:g}", from_seeds(above)


CONFIRMATIONS: dict[str, Callable[[Records], Hypotheses]] = {
    "fresh_seeds": fresh_seeds,
    "cifar10_graphs": cifar10_graphs,
    "kmnist": kmnist,
    "rare_events": rare_events,
    "gaussian_process": gaussian_process,
}


def verdicts(hypotheses: Hypotheses) -> list[dict[str, str]]:
    """Returns a row for each hypothesis; p after Holm for all of them, run or not."""
    rows = []
    named = list(hypotheses)
    known = [1.0 if math.isnan(found.p) else found.p for _, found in named]
    for (text, found), corrected in zip(named, holm(known), strict=True):
        row = {"hypothesis": text, "seeds": "0", "difference": "-", "p": "-", "p, Holm": "-"}
        row["verdict"] = "not run"
        if not math.isnan(found.half_width):
            is_ahead = is_significant(corrected) and found.value > 0
            row |= {
                # Of fewer shared seeds than a comparison by seed takes the interval is Welch's.
                "seeds": str(len(found.by_seed) or "Welch"),
                "difference": f"{found.value:+z.1f} ± {found.half_width:.1f}",
                "p": f"{found.p:.3g}",
                "p, Holm": f"{corrected:.3g}",
                "verdict": "confirmed" if is_ahead else "not confirmed",
            }
        rows.append(row)
    return rows


def page(records: Records) -> str:
    """Returns a table for each confirmation, Markdown."""
    parts = ["# Confirmations", "Frozen before they were run (configs/experiment/confirmation)."]
    for name, hypotheses in CONFIRMATIONS.items():
        cells = read_experiment(f"confirmation/{name}").cells()
        left = sum(cell.config_hash not in records for cell in cells)
        final = f"{left} are not run: no verdict is final" if left else "the verdicts are final"
        table = markdown_table(verdicts(hypotheses(records)))
        parts += [f"## {name}", table, f"{len(cells)} cells; {final}."]
    return "\n\n".join([*parts, PLUS_MINUS]) + "\n"


def _minus(ours: SeedsEstimate, theirs: SeedsEstimate) -> SeedsEstimate:
    """Returns the difference; missing where one side is not run."""
    return ours.minus(theirs) if ours.by_seed and theirs.by_seed else NOTHING


def _above_printed(ours: SeedsEstimate, printed: float) -> SeedsEstimate:
    return replace(against_printed(ours, printed, TEST_IMAGES), by_seed=ours.by_seed)
