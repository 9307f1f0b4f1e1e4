"""Milliseconds of one circle trial: search, noise, votes; beside scikit-learn's neighbours.

    python -m benchmarks.circle [budget=quick] [num_classes=10,50,100] [out=FOLDER]

One trial draws 10,000 points, releases their labels by four mechanisms at eps=1 and classifies
1,000 points by the votes of 200 neighbours. Ours searches once for the four, by scipy's
tree. The baseline fits scikit-learn's KNeighborsClassifier to released labels and its
KNeighborsRegressor to released vectors, one for each mechanism, as one would without this package;
the noise is ours there too. CPU time of one thread, the median over trials. Prints a Markdown table
and writes results/benchmarks/circle_cpu.csv. 20 trials of each K, 3 with budget=quick.
"""

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from torch import Tensor

from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp.losses import Loss, loss_named
from labeldp.supervision import Supervision, predict
from labeldp.support.validate import check_choice
from labeldp_bench.cli.script import (
    command,
    integer,
    output_folder,
    print_head,
    print_row,
    read_arguments,
)
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.circle import CircleGaussians
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.interfaces import Session
from labeldp_bench.models import NearestNeighbours
from labeldp_bench.support.process import keep_memory

Result = TypeVar("Result")
MECHANISMS = ("rr", "rappor", "alibi", "subset_selection")
CPU = torch.device("cpu")
SESSION = Session(0, CPU)
TRIALS = {PAPER: 20, "quick": 3}
STAGES = ("search", "noise", "votes")
PATHS = ("scikit-learn", "tree")
SHOWN = ("num_classes", "path", "search_ms", "noise_ms", "votes_ms", "total_ms", "ratio",
         "mean_accuracy")  # fmt: skip


class Stopwatch:
    """Adds up the CPU time of each stage."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = defaultdict(float)

    def time(self, stage: str, work: Callable[..., Result], *arguments: Any) -> Result:
        """Returns work(*arguments), and books its time."""
        start = time.process_time()
        result = work(*arguments)
        self.milliseconds[stage] += 1000 * (time.process_time() - start)
        return result


def releases(bundle: DataBundle, seed: int, watch: Stopwatch) -> list[Supervision]:
    """Returns what each mechanism released of the training labels."""
    supervisions = []
    for name in MECHANISMS:
        cell = compose_cell([f"mechanism={name}", f"dataset.num_classes={bundle.num_classes}"])
        mechanism, loss = cell.build().mechanism, loss_named(cell.setting("learner.loss"))
        store = bundle.store.open(mechanism.eps, seed, again="one data set for all timings")

        def release(
            store: Any = store, mechanism: Any = mechanism, loss: Loss = loss
        ) -> Supervision:
            return Supervision.of([store.release(mechanism)], loss)

        supervisions.append(watch.time("noise", release))
    return supervisions


def ours(bundle: DataBundle, supervisions: list[Supervision], watch: Stopwatch) -> list[Tensor]:
    """Returns the predictions of each mechanism, by one search."""
    model = NearestNeighbours(200)
    points, queries = bundle.train_features, bundle.test_features
    watch.time("search", model.search, points, queries, model.k)

    def vote(supervision: Supervision) -> Tensor:
        return predict(model.fit(points, supervision, SESSION).scores(queries), 0)

    return [watch.time("votes", vote, supervision) for supervision in supervisions]


def theirs(bundle: DataBundle, supervisions: list[Supervision], watch: Stopwatch) -> list[Tensor]:
    """Returns scikit-learn's predictions; every mechanism has a search of its own."""
    points, queries = bundle.train_features.numpy(), bundle.test_features.numpy()

    def classify(supervision: Supervision) -> Tensor:
        if supervision.targets.dim() == 1:
            labels = supervision.targets.numpy()
            found = KNeighborsClassifier(200).fit(points, labels).predict(queries)
            return torch.from_numpy(found)
        votes = supervision.votes().numpy()
        shares = KNeighborsRegressor(200).fit(points, votes).predict(queries)
        return torch.from_numpy(shares.argmax(1))

    predictions = [watch.time("votes", classify, supervision) for supervision in supervisions]
    alone = Stopwatch()  # what the four searches took of that
    fitted = KNeighborsClassifier(200).fit(points, supervisions[0].most_likely_labels[:, 0].numpy())
    alone.time("search", lambda: fitted.kneighbors(queries, return_distance=False))
    watch.milliseconds["search"] = len(MECHANISMS) * alone.milliseconds["search"]
    watch.milliseconds["votes"] -= watch.milliseconds["search"]
    return predictions


def measure(num_classes: int, trials: int) -> list[dict[str, Any]]:
    """Returns a row per path: the medians over `trials`, the first trial left out."""
    data = CircleGaussians(num_classes, sigma=0.05, n_train=10_000, n_test=1000, trials=1)
    times: dict[str, list[dict[str, float]]] = defaultdict(list)
    accuracies: dict[str, list[float]] = defaultdict(list)
    for trial in range(trials + 1):
        bundle = data.draw(Path(), trial)
        for path in PATHS:
            watch = Stopwatch()
            supervisions = releases(bundle, trial, watch)
            if path == "scikit-learn":
                predictions = theirs(bundle, supervisions, watch)
            else:
                predictions = ours(bundle, supervisions, watch)
            if predictions and trial > 0:
                times[path].append(watch.milliseconds)
                hits = torch.stack(predictions) == bundle.test_labels
                accuracies[path].append(float(hits.double().mean()))
    totals = {path: statistics.median(sum(lap.values()) for lap in times[path]) for path in times}
    base = totals.get("scikit-learn")
    return [
        {"num_classes": num_classes, "path": path, "trials": trials}
        | {f"{s}_ms": round(statistics.median(lap[s] for lap in laps), 2) for s in STAGES}
        | {
            "total_ms": round(totals[path], 2),
            "mean_accuracy": round(statistics.mean(accuracies[path]), 4),
            "ratio": round(base / totals[path], 2) if base else None,
        }
        for path, laps in times.items()
    ]


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(
        arguments, {"budget": PAPER, "num_classes": "10,50,100", "out": str(BENCHMARKS)}
    )
    trials = TRIALS[check_choice("budget", own["budget"], TRIALS)]
    classes = [
        integer("num_classes", text, low=2, high=1000) for text in own["num_classes"].split(",")
    ]
    out = output_folder("out", own["out"])
    torch.set_num_threads(1)
    keep_memory()
    print_head(SHOWN)
    rows = []
    for num_classes in classes:
        for row in measure(num_classes, trials):
            rows.append(row)
            print_row(row[key] for key in SHOWN)
    write_benchmark("circle", rows, CPU, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
