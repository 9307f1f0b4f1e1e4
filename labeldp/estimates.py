"""Answers from releases alone: accuracy, class shares and calibration, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest, t

from labeldp.manifest import ClassName
from labeldp.release import Release
from labeldp.rows import check_order, refuse_fitted_rows
from labeldp.support.validate import InputError, check_integer, check_number
from labeldp.unbiased import possible_values, unbiased_labels
from labeldp.units import numbered


@dataclass(frozen=True)
class Estimate:
    """A share in [0, 1] with the ends of its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def estimate_accuracy(
    model: Any, X: Any, release: Release, confidence: float = 0.95,
    persons: ArrayLike | None = None,
) -> Estimate:  # fmt: skip
    """Returns how often the model's class is the true one, with its interval.

    Needs no true label: a release has an unbiased estimate of whether the predicted class is right.
    Exact (Clopper-Pearson) where that can take two values only, as under randomised response, and
    for mechanisms with bits; by the t law otherwise.

    Args:
        model: fitted; `predict` gives classes of the release.
        X: features of the rows, in the order of the release.
        release: of rows that were not used in the fit.
        confidence: in (0, 1).
        persons: (N,), whose row each is; see `share_with_interval`.

    Raises:
        InputError: rows were used in the fit; too few rows.
    """
    check_classes_released(release)
    refuse_fitted_rows(model, release)
    hits = released_hits(model, X, release)
    return share_with_interval(hits, possible_values(release), confidence, persons)


def released_accuracy(model: Any, X: Any, release: Release) -> float:
    """Returns an unbiased estimate of the accuracy; a scorer for cross-validation and searches.

    It may fall outside [0, 1]: cutting it off would make the mean over folds biased.
    """
    check_classes_released(release)
    return float(released_hits(model, X, release).mean())


def class_shares(
    release: Release, confidence: float = 0.95, persons: ArrayLike | None = None
) -> dict[ClassName, Estimate]:
    """Returns each class's share among the people that the rows were drawn from.

    Each interval holds on its own with the given confidence.

    Args:
        release: of classes.
        confidence: in (0, 1).
        persons: (N,), whose row each is; see `share_with_interval`.
    """
    check_classes_released(release)
    labels, values = unbiased_labels(release), possible_values(release)
    return {
        name: share_with_interval(labels[:, number], values, confidence, persons)
        for number, name in enumerate(release.classes)
    }


def calibration(
    model: Any, X: Any, release: Release, bins: int = 10, confidence: float = 0.95
) -> pd.DataFrame:
    """Returns how often the model is right where it says how sure it is.

    Args:
        model: fitted, with `predict_proba`.
        X: features of the rows, in the order of the release.
        release: of rows that were not used in the fit.
        bins: with about equally many rows, sorted by the probability of the predicted class.
        confidence: of each interval.

    Returns:
        A row for each bin: rows, confidence (mean predicted), accuracy, low, high.
    """
    check_classes_released(release)
    refuse_fitted_rows(model, release)
    check_integer("bins", bins, low=1, high=max(1, len(release) // 2))
    sure = np.asarray(model.predict_proba(X)).max(1)
    hits, values = released_hits(model, X, release), possible_values(release)
    rows = []
    for part in np.array_split(np.argsort(sure, kind="stable"), bins):
        found = share_with_interval(hits[part], values, confidence)
        rows.append([len(part), sure[part].mean(), found.value, found.low, found.high])
    return pd.DataFrame(rows, columns=["rows", "confidence", "accuracy", "low", "high"])


def released_hits(model: Any, X: Any, release: Release) -> NDArray[np.float64]:
    """Returns an unbiased estimate, for each row, of 1 where the prediction is right, else 0."""
    check_order(X, release)
    predicted = np.asarray(model.predict(X))
    if len(predicted) != len(release):
        raise InputError(f"{len(predicted)} rows of features, but {len(release)} releases")
    place = {name: number for number, name in enumerate(release.classes)}
    try:
        chosen = np.array([place[name] for name in predicted.tolist()], dtype=np.int64)
    except KeyError as error:
        raise InputError(f"the model predicts {error}, which the release does not know") from None
    return unbiased_labels(release)[np.arange(len(chosen)), chosen]


def share_with_interval(
    estimates: NDArray[np.float64], values: Sequence[float] | None, confidence: float = 0.95,
    persons: ArrayLike | None = None,
) -> Estimate:  # fmt: skip
    """Returns the mean of unbiased estimates of zeros and ones, cut to [0, 1], with its interval.

    Where they can take two values only, they are a coin each, whose mean probability has the exact
    interval of a binomial; coins of different probabilities spread less than equal ones (Hoeffding
    1956), so that it still holds. Otherwise by the t law; where all are alike, which leaves it
    nothing to go by, from the range of the values alone (Hoeffding 1963).

    Rows of one person are alike: a hundred rows of ten people tell less than rows of a hundred.
    With `persons` the t law counts people, by the sum of what each of them adds to the mean
    (Liang and Zeger 1986).

    Args:
        estimates: (N,).
        values: that the law of a release lets them take, sorted, whether they do here or not; None:
            any.
        confidence: in (0, 1).
        persons: (N,), whose row each is; None: every row is a person of its own.

    Raises:
        InputError: no row, another number of persons than rows, a row without a person.
    """
    check_number("confidence", confidence, above=0, below=1)
    size = len(estimates)
    if not size:
        raise InputError("an estimate needs at least one row")
    whose = np.arange(size) if persons is None else numbered(persons, size)
    rows_of = np.bincount(whose)
    mean = float(estimates.mean())
    if len(rows_of) == size and values is not None and len(values) == 2:
        first, second = values
        ones = int((estimates > (first + second) / 2).sum())
        exact = binomtest(ones, size).proportion_ci(confidence, method="exact")
        low, high = (first + (second - first) * float(each) for each in (exact.low, exact.high))
    elif len(rows_of) == 1 or (estimates == estimates[0]).all():
        width = values[-1] - values[0] if values else math.inf
        reach = (
            width * math.sqrt(math.log(2 / (1 - confidence)) * float(rows_of @ rows_of) / 2) / size
        )
        low, high = mean - reach, mean + reach
    else:
        people = len(rows_of)
        added = np.bincount(whose, estimates - mean)
        error = math.sqrt(people / (people - 1) * float(added @ added)) / size
        reach = float(t.ppf((1 + confidence) / 2, people - 1)) * error
        low, high = mean - reach, mean + reach
    return Estimate(*(float(min(1.0, max(0.0, each))) for each in (mean, low, high)))


def check_classes_released(release: object) -> None:
    """Refuses anything but a release of classes."""
    if not isinstance(release, Release):
        raise InputError(f"a release of classes is needed, got {type(release).__name__}")
    if not release.classes:
        raise InputError("a release of classes is needed, got one of numbers")
