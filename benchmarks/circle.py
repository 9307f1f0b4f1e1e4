"""Milliseconds of one circle trial: search, noise, votes; beside scikit-learn's neighbours.

    python -m benchmarks.circle [budget=quick] [num_classes=10,50,100] [out=FOLDER]

One trial draws 10,000 points, releases their labels by four mechanisms at eps=1 and classifies
1,000 points by the votes of 200 neighbours. Ours searches once for the four, by scipy's
tree. The baseline fits scikit-learn's KNeighborsClassifier to released labels and its
KNeighborsRegressor to released vectors, one for each mechanism, as one would without this package;
the noise is ours there too. CPU time of one thread, the median over trials. Writes circle_cpu.csv.
20 trials of each K, 3 with budget=quick.
"""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeVar

import torch
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from torch import Tensor

from benchmarks.harness import CPU, Row, benchmark, integers, ratio
from labeldp.losses import loss_named
from labeldp.supervision import Supervision, predict
from labeldp.support.validate import check_choice
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.circle import CircleGaussians
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.interfaces import Session
from labeldp_bench.models import NearestNeighbours
from labeldp_bench.support.process import keep_memory

Result = TypeVar("Result")
MECHANISMS = ("rr", "rappor", "alibi", "subset_selection")
TRIALS = {PAPER: 20, "quick": 3}
STAGES = ("search", "noise", "votes")
SHOWN = ("num_classes", "path", *(f"{stage}_ms" for stage in (*STAGES, "total")), "ratio")


def timed(work: Callable[..., Result], *arguments: Any) -> tuple[Result, float]:
    """Returns work(*arguments), and its CPU time in milliseconds."""
    start = time.process_time()
    result = work(*arguments)
    return result, 1000 * (time.process_time() - start)


def releases(bundle: DataBundle, seed: int) -> tuple[list[Supervision], float]:
    """Returns what each mechanism released of the training labels, and the time of it."""
    supervisions, total = [], 0.0
    for name in MECHANISMS:
        cell = compose_cell([f"mechanism={name}", f"dataset.num_classes={bundle.num_classes}"])
        mechanism, loss = cell.build().mechanism, loss_named(cell.setting("learner.loss"))
        store = bundle.store.open(mechanism.eps, seed, again="one data set for all timings")
        release, milliseconds = timed(store.release, mechanism)
        supervision, more = timed(Supervision.of, [release], loss)
        supervisions.append(supervision)
        total += milliseconds + more
    return supervisions, total


Answers = tuple[list[Tensor], float, float]
"""Predictions of each mechanism, and the times of searches and of votes."""


def ours(bundle: DataBundle, supervisions: list[Supervision]) -> Answers:
    """Answers by one search."""
    model, points, queries = NearestNeighbours(200), bundle.train_features, bundle.test_features
    _, search = timed(model.search, points, queries, model.k)

    def vote(supervision: Supervision) -> Tensor:
        return predict(model.fit(points, supervision, Session(0, CPU)).scores(queries), 0)

    found, votes = timed(lambda: [vote(each) for each in supervisions])
    return found, search, votes


def theirs(bundle: DataBundle, supervisions: list[Supervision]) -> Answers:
    """Answers by scikit-learn; every mechanism has a search of its own."""
    points, queries = bundle.train_features.numpy(), bundle.test_features.numpy()

    def classify(supervision: Supervision) -> Tensor:
        if supervision.targets.dim() == 1:
            labels = supervision.targets.numpy()
            found = KNeighborsClassifier(200).fit(points, labels).predict(queries)
            return torch.from_numpy(found)
        votes = supervision.votes().numpy()
        shares = KNeighborsRegressor(200).fit(points, votes).predict(queries)
        return torch.from_numpy(shares.argmax(1))

    found, whole = timed(lambda: [classify(each) for each in supervisions])
    fitted = KNeighborsClassifier(200).fit(points, supervisions[0].most_likely_labels[:, 0].numpy())
    _, search = timed(lambda: fitted.kneighbors(queries, return_distance=False))
    search *= len(MECHANISMS)
    return found, search, whole - search


PATHS = {"scikit-learn": theirs, "tree": ours}


def measured(num_classes: int, trials: int) -> Iterator[Row]:
    """Yields a row per path: the medians over `trials`, the first trial left out."""
    data = CircleGaussians(num_classes, sigma=0.05, n_train=10_000, n_test=1000, trials=1)
    laps: dict[str, list[dict[str, float]]] = {path: [] for path in PATHS}
    for trial in range(trials + 1):
        bundle = data.draw(Path(), trial)
        for path, answer in PATHS.items():
            supervisions, noise = releases(bundle, trial)
            found, search, votes = answer(bundle, supervisions)
            hits = float((torch.stack(found) == bundle.test_labels).double().mean())
            times = {"search": search, "noise": noise, "votes": votes}
            laps[path].append(times | {"total": search + noise + votes, "hits": hits})
    totals = {path: median(lap["total"] for lap in own[1:]) for path, own in laps.items()}
    for path, own in laps.items():
        times = {each: median(lap[each] for lap in own[1:]) for each in (*STAGES, "total")}
        yield {
            "num_classes": num_classes,
            "path": path,
            "trials": trials,
            **{f"{each}_ms": round(value, 2) for each, value in times.items()},
            "mean_accuracy": round(mean(lap["hits"] for lap in own[1:]), 4),
            "ratio": ratio(totals["scikit-learn"], totals[path]),
        }


@benchmark("circle", __doc__, (*SHOWN, "mean_accuracy"), budget=PAPER, num_classes="10,50,100")
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields two rows for each number of classes."""
    trials = TRIALS[check_choice("budget", options["budget"], TRIALS)]
    several = integers(options, "num_classes", low=2, high=1000)
    torch.set_num_threads(1)
    keep_memory()
    for num_classes in several:
        yield from measured(num_classes, trials)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
