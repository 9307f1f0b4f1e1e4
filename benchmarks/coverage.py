"""How often the intervals of `labeldp.metrics`, and of `labeldp fit`, hold the true value.

    python -m benchmarks.coverage [simulations=2000] [fits=200] [out=FOLDER]

Rows are drawn from a fixed population of 200,000, whose true metrics are known: the last of K
classes has a share of 0.18 (K = 2) or 0.11 (K = 5), and the scores are those of a softmax model
that is too sure of itself.
Each simulation draws rows, releases their labels by the mechanism that `labeldp plan` recommends,
and asks for all metrics. An answer "cannot be said" is counted on its own, and is no miss.
For `labeldp fit`, `fits` simulations of 500 rows fit the linear model to the features behind the
scores: does what the command prints hold the accuracy of the model that it writes?
Writes metric_coverage.csv.
"""

import itertools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import metrics as truth

import labeldp as ldp
from labeldp import metrics, models
from labeldp.estimates import Estimate
from labeldp.intervals import unknown
from labeldp_bench.cli.script import command, integer, output_folder, read_arguments

POPULATION = 200_000
SETTINGS = list(itertools.product((2, 5), (500, 5000), (0.5, 1.0, 3.0)))
"""Classes, rows, eps."""
BINS = 10
Values = dict[str, float]


def population(classes: int) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Returns true labels (P,); features, scores of a good model, of a worse one, (P, K) each."""
    stream = np.random.default_rng(classes)
    shares = np.full(classes, 0.9 / (classes - 1))
    shares[-1] = 0.1
    features = stream.normal(size=(POPULATION, classes))
    logits = 1.2 * features + np.log(shares)
    noise = stream.gumbel(size=logits.shape)
    labels = (logits + noise).argmax(1)

    def softmax(numbers: NDArray) -> NDArray:
        powers = np.exp(numbers - numbers.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    worse = logits + stream.normal(size=logits.shape)
    return labels, features, softmax(1.3 * logits), softmax(worse)


def true_values(labels: NDArray, scores: NDArray, worse: NDArray, groups: NDArray) -> Values:
    """Returns the metrics of the whole population, by scikit-learn where it has them."""
    last, chosen = scores.shape[1] - 1, scores.argmax(1)
    of_last = labels == last
    top = scores[:, last] >= np.quantile(scores[:, last], 0.9)
    sure, right = scores.max(1), chosen == labels
    parts = np.array_split(np.argsort(sure), BINS)
    gaps = [float((right[part] - sure[part]).mean()) for part in parts]
    auc = truth.roc_auc_score(of_last, scores[:, last])
    recalls = truth.recall_score(labels, chosen, average=None)
    in_group = [right[of_last & (groups == group)].mean() for group in (0, 1)]
    costs = -np.log(scores.clip(metrics.CLIP)[np.arange(len(labels)), labels])
    squares = np.square(scores - np.eye(last + 1)[labels]).sum(1).mean()
    return {
        "accuracy": right.mean(),
        "recall": recalls[last],
        "balanced_accuracy": recalls.mean(),
        "precision": truth.precision_score(labels, chosen, average=None)[last],
        "log_loss": costs.mean(),
        "brier": squares / 2 if last == 1 else squares,
        "roc_auc": auc,
        "average_precision": truth.average_precision_score(of_last, scores[:, last]),
        "lift": of_last[top].mean() / of_last.mean(),
        "calibration_error": float(np.sqrt(np.mean(np.square(gaps)))),
        "confusion_matrix cell": (of_last & (chosen == 0)).mean(),
        "difference of roc_auc": auc - truth.roc_auc_score(of_last, worse[:, last]),
        "difference of accuracy": right.mean() - (worse.argmax(1) == labels).mean(),
        "group_gap of recall": in_group[0] - in_group[1],
    }


def answers(
    release: ldp.Release, scores: NDArray, worse: NDArray, groups: NDArray
) -> dict[str, Estimate]:
    """Returns the same metrics from releases."""
    last = scores.shape[1] - 1
    matrix = metrics.confusion_matrix(release, scores)
    of_last: list[Callable[..., Estimate]] = [
        metrics.recall, metrics.precision, metrics.roc_auc, metrics.average_precision, metrics.lift,
    ]  # fmt: skip
    whole: list[Callable[..., Estimate]] = [
        metrics.accuracy, metrics.balanced_accuracy, metrics.log_loss, metrics.brier,
        metrics.calibration_error,
    ]  # fmt: skip
    return {
        **{each.__name__: each(release, scores, positive=last) for each in of_last},
        **{each.__name__: each(release, scores) for each in whole},
        "confusion_matrix cell": Estimate(
            float(matrix.value.iloc[last, 0]),
            float(matrix.low.iloc[last, 0]),
            float(matrix.high.iloc[last, 0]),
        ),
        "difference of roc_auc": metrics.difference(
            metrics.roc_auc, release, scores, worse, positive=last
        ),
        "difference of accuracy": metrics.difference(metrics.accuracy, release, scores, worse),
        "group_gap of recall": metrics.group_gap(
            metrics.recall, release, scores, groups, positive=last
        ),
    }


def answers_of_fit(features: NDArray, release: ldp.Release) -> tuple[Any, dict[str, Estimate]]:
    """Returns the model that `labeldp fit` writes, and what it prints of it."""
    model, table = ldp.LabelDPClassifier(), pd.DataFrame(features)
    found = models.cross_validated(model, table, release)
    untold = found.accuracy.low <= 1 / len(release.classes) and found.accuracy.high == 1
    said = {"fit: accuracy": found.accuracy, "fit: gain over the most frequent class": found.gain}
    if untold:  # the command then prints no number
        said = {name: unknown(0, 1, "untold") for name in said}
    return model.fit(table, release), said


def simulated(
    classes: int, eps: float, rows: int, simulations: int, of_fit: bool = False
) -> pd.DataFrame:
    """Returns a row for each metric: how often the interval holds, how often there is none."""
    labels, features, scores, worse = population(classes)
    groups = np.random.default_rng(0).integers(0, 2, POPULATION)
    true = true_values(labels, scores, worse, groups)
    everybody = pd.DataFrame(features)
    usual = np.bincount(labels).max() / POPULATION
    mechanism = ldp.plan(rows, classes, eps).mechanism
    found = []
    for seed in range(simulations):
        drawn = np.random.default_rng([seed, classes, rows]).integers(0, POPULATION, rows)
        release = ldp.privatize(
            labels[drawn], classes=list(range(classes)), eps=eps, mechanism=mechanism, seed=seed
        )
        if of_fit:
            model, said = answers_of_fit(features[drawn], release)
            right = float((model.predict(everybody) == labels).mean())
            true = dict(zip(said, (right, right - usual), strict=True))
        else:
            said = answers(release, scores[drawn], worse[drawn], groups[drawn])
        found += [
            (name, bool(each.reason), each.low <= true[name] <= each.high, each.high - each.low)
            for name, each in said.items()
        ]
    table = pd.DataFrame(found, columns=["metric", "unsaid", "held", "width"])
    said_of = table[~table.unsaid].groupby("metric", sort=False)
    own = pd.DataFrame(
        {
            "eps": eps, "rows": rows, "classes": classes, "mechanism": mechanism,
            "simulations": simulations, "nominal": 0.95, "observed": said_of.held.mean(),
            "mean_width": said_of.width.mean(),
            "cannot_be_said": table.groupby("metric", sort=False).unsaid.mean(),
        }
    )  # fmt: skip
    return own.loc[table.metric.unique()].rename_axis("metric").reset_index()


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Simulates all settings and writes the table."""
    options = read_arguments(
        arguments, {"simulations": "2000", "fits": "200", "out": "results/benchmarks"}
    )
    counts = [integer(name, options[name], low=1) for name in ("simulations", "fits")]
    out = output_folder("out", options["out"])
    warnings.simplefilter("ignore")  # "practically noise", as it should be at these eps
    tables = []
    for classes, rows, eps in SETTINGS:
        for of_fit, simulations in enumerate(counts if rows == 500 else counts[:1]):
            each = simulated(classes, eps, rows, simulations, bool(of_fit))
            print(each.round(3).to_string(index=False), flush=True)
            tables.append(each)
    pd.concat(tables).to_csv(out / "metric_coverage.csv", index=False, float_format="%.4g")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
