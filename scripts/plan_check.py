"""What `plan` predicted against what then happened, on ten tasks that it has not seen.

    python scripts/plan_check.py

Tasks: real data that scikit-learn ships, none of them among the committed records. Half of the rows
are released and learnt by the default model, the others measure its true accuracy; mean of three
seeds. Writes results/benchmarks/plan.csv: both ranges of `plan` (from records; with features) and
the measured accuracy. A few minutes.
"""

import sys
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from labeldp_bench.cli.script import command, output_file, read_arguments
from labeldp_bench.own_labels.classifier import LabelDPClassifier
from labeldp_bench.own_labels.plan import plan
from labeldp_bench.own_labels.privatize import privatize
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.files import write_text
from labeldp_bench.support.progress import progress_bar

BUDGETS = (1.0, 4.0)
SEEDS = range(3)


def tasks() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns features and labels of ten tasks."""
    (iris, flower), (wine, grower) = load_iris(return_X_y=True), load_wine(return_X_y=True)
    cancer, benign = load_breast_cancer(return_X_y=True)
    digits, digit = load_digits(return_X_y=True)
    diabetes, progress = load_diabetes(return_X_y=True)
    return {
        "iris": (iris, flower),
        "wine": (wine, grower),
        "breast_cancer": (cancer, benign),
        "breast_cancer_3_columns": (cancer[:, :3], benign),
        "digits": (digits, digit),
        "digits_parity": (digits, digit % 2),
        "digits_above_4": (digits, (digit > 4).astype(int)),
        "digits_0_to_4": (digits[digit < 5], digit[digit < 5]),
        "diabetes_above_median": (diabetes, (progress > np.median(progress)).astype(int)),
        "diabetes_thirds": (
            diabetes, np.digitize(progress, np.quantile(progress, [1 / 3, 2 / 3]))
        ),
    }  # fmt: skip


def measured(X: np.ndarray, y: np.ndarray, eps: float, mechanism: str, seed: int) -> float:
    """Returns the true accuracy on the half of the rows that was not released."""
    order = np.random.default_rng(seed).permutation(len(y))
    fitted, test = np.array_split(order, 2)
    release = privatize(
        y[fitted], classes=list(range(int(y.max()) + 1)), eps=eps, mechanism=mechanism, seed=seed
    )
    model = LabelDPClassifier().fit(X[fitted], release)
    return float((model.predict(X[test]) == y[test]).mean())


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the table."""
    default = str(CHECKOUT / "results" / "benchmarks" / "plan.csv")
    out = output_file("out", read_arguments(arguments, {"out": default})["out"])
    warnings.simplefilter("ignore")  # of releases that are practically noise
    cells = [(name, eps) for name in tasks() for eps in BUDGETS]
    rows = []
    for name, eps in progress_bar(cells, len(cells), "cells"):
        X, y = tasks()[name]
        count, half = int(y.max()) + 1, (len(y) + 1) // 2
        blind, seeing = plan(half, count, eps), plan(half, count, eps, X=X)
        found = [measured(X, y, eps, blind.mechanism, seed) for seed in SEEDS]
        accuracy = float(np.mean(found))
        row = [name, half, count, eps, blind.mechanism, accuracy]
        for each in (blind, seeing):
            row += [each.accuracy_low, each.accuracy_high]
            row += [each.accuracy_low <= accuracy <= each.accuracy_high]
        rows.append(row)
    table = pd.DataFrame(
        rows,
        columns=["task", "rows", "classes", "eps", "mechanism", "measured", "low", "high", "inside",
                 "low_with_features", "high_with_features", "inside_with_features"],
    )  # fmt: skip
    write_text(out, table.to_csv(index=False, float_format="%.4f"))
    print(table.to_string(index=False))
    print(f"inside: {table.inside.sum()} of {len(table)} without features, "
          f"{table.inside_with_features.sum()} with")  # fmt: skip
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
