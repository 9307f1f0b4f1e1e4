"""Milliseconds of one circle trial: search, noise, votes; beside scikit-learn's neighbours.

    python -m benchmarks.circle [budget=quick] [num_classes=10,50,100] [out=FOLDER]

One trial draws 10,000 points, releases their labels by four mechanisms at eps=1 and classifies
1,000 points by the votes of 200 neighbours. Ours searches once for the four, compiled and by
scipy's tree. The baseline fits scikit-learn's KNeighborsClassifier to released labels and its
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
from typing import Any

from labeldp_bench.support.process import keep_memory, prepare_threads

prepare_threads()  # before torch, which reads the setting

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from benchmarks.table import BENCHMARKS, write_benchmark  # noqa: E402
from labeldp_bench.cli.script import (  # noqa: E402
    command,
    integer,
    output_folder,
    read_arguments,
)
from labeldp_bench.data import CircleGaussians  # noqa: E402
from labeldp_bench.experiments.compose import compose_cell  # noqa: E402
from labeldp_bench.experiments.identity import PAPER  # noqa: E402
from labeldp_bench.models import NearestNeighbours  # noqa: E402
from labeldp_bench.supervision.interfaces import Session  # noqa: E402
from labeldp_bench.supervision.losses import loss_named  # noqa: E402
from labeldp_bench.supervision.prediction import predict  # noqa: E402
from labeldp_bench.supervision.targets import Supervision  # noqa: E402
from labeldp_bench.support.device import describe_device  # noqa: E402
from labeldp_bench.support.validate import check_choice  # noqa: E402

try:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
except ModuleNotFoundError:
    KNeighborsClassifier = None

MECHANISMS = ("rr", "rappor", "alibi", "subset_selection")
CPU = torch.device("cpu")
SESSION = Session(0, CPU, lambda *_: None, lambda _: None)
TRIALS = {PAPER: 20, "quick": 3}
STAGES = ("search", "noise", "votes")
SHOWN = ("num_classes", "path", "search_ms", "noise_ms", "votes_ms", "total_ms", "ratio",
         "mean_accuracy")  # fmt: skip
PATHS = ("compiled", "tree", "scikit-learn")


class Stopwatch:
    """Adds up the CPU time of each stage."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = defaultdict(float)

    def time(self, stage: str, work: Callable[[], Any]) -> Any:
        """Returns work(), and books its time."""
        start = time.process_time()
        result = work()
        self.milliseconds[stage] += 1000 * (time.process_time() - start)
        return result


def releases(bundle: Any, seed: int, watch: Stopwatch) -> list[Supervision]:
    """Returns what each mechanism released of the training labels."""
    supervisions = []
    for name in MECHANISMS:
        cell = compose_cell([f"mechanism={name}", f"dataset.num_classes={bundle.num_classes}"])
        parts = cell.build()
        loss, mechanism = loss_named(parts.learner.loss), parts.mechanism
        door = bundle.vault.open(mechanism.eps, seed).door

        def release(door: Any = door, mechanism: Any = mechanism, loss: Any = loss) -> Supervision:
            return Supervision.of([door.release(mechanism)], loss)

        supervisions.append(watch.time("noise", release))
    return supervisions


def ours(bundle: Any, supervisions: list[Supervision], watch: Stopwatch, compiled: bool) -> Any:
    """Returns the predictions of each mechanism; one search serves all."""
    model = NearestNeighbours(200)
    if compiled:
        model.search.compile(print)
        if model.search.path != "compiled":
            return None
    points, queries = bundle.train_features, bundle.test_features
    watch.time("search", lambda: model.search(points, queries, model.k))

    def vote(supervision: Supervision) -> Tensor:
        return predict(model.fit(points, supervision, SESSION).scores(queries), 0)

    return [watch.time("votes", lambda s=s: vote(s)) for s in supervisions]


def theirs(bundle: Any, supervisions: list[Supervision], watch: Stopwatch) -> Any:
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

    whole = [watch.time("votes", lambda s=s: classify(s)) for s in supervisions]
    alone = Stopwatch()  # what the four searches took of that
    fitted = KNeighborsClassifier(200).fit(points, supervisions[0].plausible[:, 0].numpy())
    alone.time("search", lambda: fitted.kneighbors(queries, return_distance=False))
    watch.milliseconds["search"] = len(MECHANISMS) * alone.milliseconds["search"]
    watch.milliseconds["votes"] -= watch.milliseconds["search"]
    return whole


def measure(num_classes: int, trials: int) -> list[dict[str, Any]]:
    """Returns a row per path: the medians over `trials`, the first trial left out."""
    data = CircleGaussians(num_classes, sigma=0.05, n_train=10_000, n_test=1000, trials=1)
    times: dict[str, list[dict[str, float]]] = defaultdict(list)
    hits: dict[str, list[float]] = defaultdict(list)
    for trial in range(trials + 1):
        bundle = data.draw(Path(), trial)
        for path in PATHS:
            watch = Stopwatch()
            supervisions = releases(bundle, trial, watch)
            if path != "scikit-learn":
                predictions = ours(bundle, supervisions, watch, path == "compiled")
            elif KNeighborsClassifier is not None:
                predictions = theirs(bundle, supervisions, watch)
            else:
                predictions = None
            if predictions is not None and trial > 0:
                times[path].append(watch.milliseconds)
                right = [
                    float((each == bundle.test_labels).double().mean()) for each in predictions
                ]
                hits[path].append(statistics.mean(right))
    rows: list[dict[str, Any]] = []
    for path, laps in times.items():
        medians = {f"{s}_ms": statistics.median(lap[s] for lap in laps) for s in STAGES}
        total = statistics.median(sum(lap.values()) for lap in laps)
        rows.append(
            {"num_classes": num_classes, "path": path, "trials": trials}
            | {key: round(value, 2) for key, value in medians.items()}
            | {"total_ms": round(total, 2), "mean_accuracy": round(statistics.mean(hits[path]), 4)}
        )
    base = next((row["total_ms"] for row in rows if row["path"] == "scikit-learn"), None)
    return [row | {"ratio": round(base / row["total_ms"], 2) if base else None} for row in rows]


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
    if KNeighborsClassifier is None:
        print("scikit-learn is not installed, so no baseline (pip install 'labeldp_bench[bench]')")
    print("| " + " | ".join(SHOWN) + " |\n" + "|---" * len(SHOWN) + "|")
    rows = []
    for num_classes in classes:
        for row in measure(num_classes, trials):
            rows.append(row)
            shown = [row[key] for key in SHOWN]
            print("| " + " | ".join(map(str, shown)) + " |", flush=True)
    print(f"\n{describe_device(CPU)}: {write_benchmark('circle', rows, CPU, out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
