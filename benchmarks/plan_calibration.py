"""What real data sets teach `labeldp plan`: their ceilings, and how many labels they need.

    python -m benchmarks.plan_calibration

Needs `pip install 'labeldp-bench[plan]'`. Of each calibrating table (plan_tables.py) half of the
rows are released at five eps and learnt by the default model, the others measure the accuracy; two
seeds. From the committed records come the benchmark's networks on images: local mechanisms without
a prior, one stage, marginal likelihood. To the accuracies of a data set the curve n / (n + c) of
labeldp/experience.py is fitted, n being releases times their worth in true labels
(own_labels/strength.py) for each class. Writes labeldp/plan_tasks.csv, and prints
how well each table is predicted from all others. A few minutes of one core.
"""

import json
import math
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from benchmarks.plan_tables import Task, calibrating, table_task
from labeldp import experience
from labeldp.classifier import LabelDPClassifier
from labeldp.named_mechanisms import all_informativeness, recommended
from labeldp.privatization import privatize
from labeldp.redundancy import redundancy
from labeldp.support.files import write_text
from labeldp.support.progress import progress_bar
from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.support.checkout import CHECKOUT

OUT = CHECKOUT / "labeldp" / "plan_tasks.csv"
BUDGETS = (0.5, 1.0, 2.0, 4.0, math.inf)
SEEDS = range(2)
IMAGES = {"mnist": 10, "fashion_mnist": 10, "kmnist": 10, "cifar10": 10, "cifar100": 100}
NETWORKS = ("cnn", "resnet18", "resnet18_w16")
FEWEST_RUNS = 2
FEW_LABELS = 3.0
"""For each class: where accuracies say nothing of c, it is drawn towards this."""
PULL = 0.005


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the table."""
    read_arguments(arguments, {})
    warnings.simplefilter("ignore")  # of releases that are practically noise
    names = calibrating()
    rows, points = [], {}
    for name in progress_bar(names, len(names), "tables"):
        task = table_task(name)
        points[name] = measured_curve(task)
        uneven = gain(np.bincount(task.labels).max() / len(task.labels), task.num_classes)
        rows.append([name, task.num_classes, uneven, *fitted(points[name], uneven),
                     redundancy(task.features)])  # fmt: skip
    rows += from_records()
    columns = ["task", "classes", "uneven", "ceiling", "labels", "redundancy"]
    table = pd.DataFrame(rows, columns=columns)
    write_text(OUT, table.to_csv(index=False, float_format="%.4f"))
    print(table.to_string(index=False))
    print(f"wrote {OUT}")
    _leave_one_out(table, points)
    return 0


def gain(accuracy: float, num_classes: int) -> float:
    """Returns how far from chance (0) to certainty (1) an accuracy is."""
    return (accuracy - 1 / num_classes) / (1 - 1 / num_classes)


def measured_accuracy(task: Task, eps: float, mechanism: str, seed: int) -> float:
    """Returns the true accuracy on the half of the rows that was not released."""
    order = np.random.default_rng(seed).permutation(len(task.labels))
    fit, test = np.array_split(order, 2)
    release = privatize(
        task.labels[fit], classes=list(range(task.num_classes)), eps=eps, mechanism=mechanism,
        seed=seed,
    )  # fmt: skip
    model = LabelDPClassifier().fit(task.features[fit], release)
    return float((model.predict(task.features[test]) == task.labels[test]).mean())


def measured_curve(task: Task) -> np.ndarray:
    """Returns (effective labels per class, gain) at each eps, mean over seeds, (5, 2)."""
    count, half = task.num_classes, (len(task.labels) + 1) // 2
    found = []
    for eps in BUDGETS:
        name = recommended(count, eps)
        worth = 1.0 if math.isinf(eps) else all_informativeness(count, eps)[name][1]
        accuracy = np.mean([measured_accuracy(task, eps, name, seed) for seed in SEEDS])
        found.append([half * worth / count, gain(float(accuracy), count)])
    return np.array(found)


def fitted(points: np.ndarray, uneven: float) -> tuple[float, float]:
    """Returns (ceiling above always saying the most frequent class, labels c for half the way)."""
    labels, gains = points.T

    def residuals(guess: np.ndarray) -> np.ndarray:
        curve = guess[0] * labels / (labels + math.exp(guess[1]))
        return np.append(curve - gains, PULL * (guess[1] - math.log(FEW_LABELS)))

    start = [min(1.0, max(0.01, gains.max())), math.log(FEW_LABELS)]
    found = least_squares(residuals, start, bounds=([0, -6], [1, 8])).x
    return max(0.0, (found[0] - uneven) / (1 - uneven)), math.exp(found[1])


def from_records() -> list[list[object]]:
    """Returns rows of the networks on images among the committed records."""
    records = pd.read_csv(CHECKOUT / "results" / "records.csv", low_memory=False)
    chosen = records[
        (records.task == "classification") & (records.trust == "local")
        & (records.loss == "marginal") & (records.learner == "single_stage") & records.eps.notna()
        & (records.pretrain == "none") & records.dataset.isin(IMAGES) & records.model.isin(NETWORKS)
    ]  # fmt: skip
    points: dict[str, list[list[float]]] = {}
    for record in chosen.itertuples():
        if json.loads(record.identity).get("learner.retrain"):
            continue
        count, eps = IMAGES[record.dataset], float(record.eps)
        name = "rr" if record.mechanism == "lp_1st" else record.mechanism
        if math.isinf(eps) or name not in all_informativeness(count, eps):
            continue
        labels = record.n_train * all_informativeness(count, eps)[name][1] / count
        key = f"records: {record.dataset}, {record.model}"
        points.setdefault(key, []).append([labels, gain(record.accuracy, count)])
    return [
        [name, IMAGES[name.split(": ")[1].split(",")[0]], 0.0, *fitted(np.array(found), 0.0), None]
        for name, found in sorted(points.items())
        if len(found) >= FEWEST_RUNS
    ]


def _leave_one_out(table: pd.DataFrame, points: dict[str, np.ndarray]) -> None:
    """Prints how often ranges from all other data sets hold each table's accuracies, how wide."""
    kinds: dict[str, Callable[[pd.Series], tuple[list[float] | None, float | None]]] = {
        "rows and classes alone": lambda row: (None, None),
        "with columns": lambda row: (None, row.redundancy),
        "with class shares": lambda row: (_shares(row), None),
        "with both": lambda row: (_shares(row), row.redundancy),
    }
    for kind, known in kinds.items():
        inside, width = [], []
        for place, row in table.iterrows():
            if row.task not in points:
                continue
            others = table.drop(index=place)
            shares, said = known(row)
            for labels, found in points[row.task]:
                expected = experience.expected_accuracies(labels, row.classes, shares, said, others)
                low, _, high = (gain(each, row.classes) for each in experience.range_of(expected))
                inside.append(low <= found <= high)
                width.append(high - low)
        print(f"{kind}: {np.mean(inside):.0%} of {len(inside)} inside a nominal 90 %, width "
              f"{np.mean(width):.2f} of the way from chance to certainty")  # fmt: skip


def _shares(row: pd.Series) -> list[float]:
    """Returns shares whose largest is the table's; the others do not count."""
    most = 1 / row.classes + row.uneven * (1 - 1 / row.classes)
    return [most, *[(1 - most) / (row.classes - 1)] * (row.classes - 1)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
