"""How often each interval from releases holds the truth: nominal against observed.

    python scripts/interval_coverage.py        # 1,000 simulations of each: ten minutes
    python scripts/interval_coverage.py simulations=50 out=coverage.csv

Every simulation draws people anew: a feature, a label that it half explains, a release. The model
is fixed beforehand. Writes results/benchmarks/coverage.csv: for each question, mechanism and eps
the nominal coverage, the observed one with its 95 % interval, and the mean width.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from labeldp.estimates import PredictionSets, calibration, class_shares, estimate_accuracy
from labeldp.privatization import privatize
from labeldp.support.files import write_text
from labeldp.support.progress import progress_bar
from labeldp_bench.cli.script import command, integer, output_file, read_arguments
from labeldp_bench.support.checkout import CHECKOUT

SHARES = np.array([0.55, 0.3, 0.1, 0.05])
MECHANISMS = ("rr", "subset_selection", "rappor", "alibi", "optimal")
BUDGETS = (0.5, 1.0, 3.0)
ROWS = 500
NOMINAL = {"accuracy": 0.95, "class_share": 0.95, "calibration": 0.95, "prediction_set": 0.9}
RARE = 3
"""The class whose share is asked for: the rarest."""


class FixedModel:
    """Knows the law of labels given the feature, up to a temperature that makes it too sure."""

    classes_ = np.arange(4)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Returns class probabilities, (m, 4)."""
        powers = _law(X) ** 1.5
        return powers / powers.sum(1, keepdims=True)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Returns the most likely class, (m,)."""
        return self.predict_proba(X).argmax(1)


def _law(features: np.ndarray) -> np.ndarray:
    """Returns P(label | feature), (m, 4); the feature is the likelier class plus noise."""
    distance = np.abs(features[:, :1] - np.arange(4))
    weights = SHARES * np.exp(-2 * distance)
    return weights / weights.sum(1, keepdims=True)


def people(count: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns features (count, 1) and labels (count,)."""
    features = stream.choice(4, (count, 1), p=SHARES) + stream.normal(0, 0.4, (count, 1))
    labels = (_law(features).cumsum(1) < stream.random((count, 1))).sum(1).clip(0, 3)
    return features, labels


def truths() -> tuple[float, float, np.ndarray, np.ndarray]:
    """Returns accuracy, the rare class's share, and a large population, at which sets are tried."""
    features, labels = people(400_000, np.random.default_rng(1))
    hit = FixedModel().predict(features) == labels
    return float(hit.mean()), float((labels == RARE).mean()), features, labels


def simulate(name: str, eps: float, count: int) -> pd.DataFrame:
    """Returns a row for each question: nominal, observed and width."""
    model = FixedModel()
    accuracy, share, features, labels = truths()
    few, few_labels = features[:3000], labels[:3000]
    found: dict[str, list[tuple[float, float]]] = {question: [] for question in NOMINAL}
    for number in range(count):
        X, y = people(ROWS, np.random.default_rng(10_000 + number))
        release = privatize(y, classes=[0, 1, 2, 3], eps=eps, mechanism=name, seed=number)
        for question, truth, estimate in (
            ("accuracy", accuracy, estimate_accuracy(model, X, release)),
            ("class_share", share, class_shares(release)[RARE]),
        ):
            inside = estimate.low <= truth <= estimate.high
            found[question].append((inside, estimate.high - estimate.low))
        # A bin's true accuracy is that of these rows' labels under the law.
        sure = model.predict_proba(X).max(1)
        last = np.array_split(np.argsort(sure, kind="stable"), 5)[-1]
        right = _law(X)[np.arange(ROWS), model.predict(X)][last].mean()
        row = calibration(model, X, release, bins=5).iloc[-1]
        found["calibration"].append((row.low <= right <= row.high, row.high - row.low))
        sets = PredictionSets(model, X, release, NOMINAL["prediction_set"]).predict(few)
        covered = sets[np.arange(len(few)), few_labels].mean()
        found["prediction_set"].append((covered, sets.sum(1).mean()))
    rows = []
    for question, each in found.items():
        inside, width = np.array(each, dtype=float).mean(0)
        ends = (np.nan, np.nan)  # of a mean over simulations of shares
        if question != "prediction_set":
            exact = binomtest(round(inside * count), count).proportion_ci(method="exact")
            ends = (exact.low, exact.high)
        rows.append([question, name, eps, ROWS, count, NOMINAL[question], inside, *ends, width])
    columns = ["question", "mechanism", "eps", "rows", "simulations", "nominal", "observed", "low",
               "high", "mean_width"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the table."""
    default = str(CHECKOUT / "results" / "benchmarks" / "coverage.csv")
    values = read_arguments(arguments, {"simulations": "1000", "out": default})
    count = integer("simulations", values["simulations"], low=1)
    out = output_file("out", values["out"])
    warnings.simplefilter("ignore")  # of releases that are practically noise
    cells = [(name, eps) for name in MECHANISMS for eps in BUDGETS]
    parts = [simulate(name, eps, count) for name, eps in progress_bar(cells, len(cells), "cells")]
    table = pd.concat(parts).sort_values(["question", "mechanism", "eps"])
    write_text(out, table.to_csv(index=False, float_format="%.4g"))
    print(table.to_string(index=False))
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
