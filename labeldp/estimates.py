"""What releases say of a model and of the classes, with intervals."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, stdtrit
from torch import Tensor

from labeldp.information import information
from labeldp.manifest import ClassName
from labeldp.mechanisms import ClassMechanism
from labeldp.mechanisms.stacked import Stacked
from labeldp.names import numbered
from labeldp.release import Release
from labeldp.rows import check_order, check_size, checked_weights, refuse_fitted_rows
from labeldp.support.validate import InputError, check_number


def unbiased_labels(release: Release) -> NDArray[np.float64]:
    """Returns an unbiased estimate of each row's one-hot label, float64 (N, K), as `classes`.

    The mechanism's own where it has one; of a stack, the mean of those of its parts. Otherwise,
    with q the average law of outputs and w_c = P(o | c) / q(o), G^-1 w(o) for G = sum_o q w w^T:
    the mean of w under label y is column y of G.

    Raises:
        InputError: the channel cannot tell some classes apart.
    """
    return _estimates(release.class_mechanism, release.outputs, len(release.classes))


def possible_values(release: Release, number: int | None = None) -> tuple[float, ...] | None:
    """Returns the values that estimates of `unbiased_labels`, or column `number`, can take, sorted.

    They follow from the law alone: a few rows may show one of two. None where they are not finitely
    many, or too many to list.
    """
    mechanism, num_classes = release.manifest.class_mechanism, len(release.classes)
    rates = mechanism.bit_rates(num_classes)  # the same of all classes, whatever their order
    if isinstance(mechanism, Stacked):
        return (0.0, 1.0) if _told(mechanism, num_classes).max() == 1 else None
    if rates is not None:
        own, other = rates
        return -other / (own - other), (1 - other) / (own - other)
    try:
        mechanism = release.class_mechanism
        outputs = mechanism.output_space(num_classes)
    except InputError:
        return None
    found = _estimates(mechanism, outputs, num_classes)
    found = found if number is None else found[:, number]
    size = np.abs(found).max()  # what differs less is rounding
    _, first = np.unique((found / size).round(9), return_index=True)
    return tuple(found.ravel()[first].tolist())


def _told(stack: Stacked, num_classes: int) -> NDArray[np.float64]:
    """Returns the share of the label's variance that each part explains; 1: it has no noise."""
    shares = np.array([information(part, num_classes).share for part in stack.parts])
    return np.where(shares > 1 - 1e-12, 1.0, shares)


def _estimates(mechanism: ClassMechanism, outputs: Tensor, num_classes: int) -> NDArray[np.float64]:
    if isinstance(mechanism, Stacked):
        each = [_estimates(part, own, num_classes) for part, own in mechanism.by_part(outputs)]
        told = _told(mechanism, num_classes)
        # One over the variance of the noise; parts without noise count alone.
        return np.average(each, 0, told == 1 if told.max() == 1 else told / (1 - told))
    try:
        return mechanism.unbiased(outputs, num_classes).numpy()
    except InputError:
        law = mechanism.log_likelihood(mechanism.output_space(num_classes), num_classes).exp()
    average = law.mean(1, keepdim=True)
    gram = (law / average).T @ law
    if torch.linalg.matrix_rank(gram) < num_classes:
        raise InputError(f"{mechanism.name} cannot tell some of the classes apart") from None
    likelihood = mechanism.log_likelihood(outputs, num_classes).exp()
    weights = likelihood / likelihood.mean(1, keepdim=True)
    return (weights @ torch.linalg.inv(gram)).numpy()


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its confidence interval.

    Attributes:
        value: NaN: it cannot be said.
        low, high: ends of the interval; where it cannot be said, of what is possible.
        reason: why it cannot be said; empty otherwise.
    """

    value: float
    low: float
    high: float
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"cannot be said: {self.reason}"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def estimate_accuracy(
    model: Any, X: Any, release: Release, confidence: float = 0.95,
    persons: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
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
        sample_weight: (N,), how many people each row stands for, such as the weights of a survey.

    Raises:
        InputError: rows were used in the fit; too few rows.
    """
    check_classes_released(release)
    refuse_fitted_rows(model, release)
    check_order(release, persons=persons, sample_weight=sample_weight)
    hits = released_hits(model, X, release)
    return share_with_interval(hits, possible_values(release), confidence, persons, sample_weight)


def released_accuracy(model: Any, X: Any, release: Release) -> float:
    """Returns an unbiased estimate of the accuracy; a scorer for cross-validation and searches.

    It may fall outside [0, 1]: cutting it off would make the mean over folds biased.
    """
    check_classes_released(release)
    return float(released_hits(model, X, release).mean())


def class_shares(
    release: Release, confidence: float = 0.95, persons: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> dict[ClassName, Estimate]:  # fmt: skip
    """Returns each class's share among the people that the rows were drawn from.

    Shares are the nearest ones to the unbiased estimates that are not negative and sum to 1. Each
    interval holds on its own with the given confidence.

    Args:
        release: of classes.
        confidence: in (0, 1).
        persons: (N,), whose row each is; see `share_with_interval`.
        sample_weight: (N,), how many people each row stands for, such as the weights of a survey.
    """
    check_classes_released(release)
    check_order(release, persons=persons, sample_weight=sample_weight)
    labels = unbiased_labels(release)
    alone = [
        share_with_interval(
            column, possible_values(release, number), confidence, persons, sample_weight
        )
        for number, column in enumerate(labels.T)
    ]
    weights = checked_weights(sample_weight, len(release))
    shares = _nearest_shares(np.average(labels, 0, weights)).tolist()
    return {
        name: Estimate(share, min(share, each.low), max(share, each.high))
        for name, share, each in zip(release.classes, shares, alone, strict=True)
    }


def _nearest_shares(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the nearest shares, (K,), none negative, with sum 1 (Duchi et al. 2008, figure 1)."""
    descending = np.sort(means)[::-1]
    excess = (descending.cumsum() - 1) / np.arange(1, len(means) + 1)
    return (means - excess[descending > excess][-1]).clip(0)


def released_hits(model: Any, X: Any, release: Release) -> NDArray[np.float64]:
    """Returns an unbiased estimate, for each row, of 1 where the prediction is right, else 0."""
    check_order(release, X=X)
    predicted = np.asarray(model.predict(X))
    check_size(len(predicted), release)
    place = {name: number for number, name in enumerate(release.classes)}
    try:
        chosen = np.array([place[name] for name in predicted.tolist()], dtype=np.int64)
    except KeyError as error:
        raise InputError(f"the model predicts {error}, which the release does not know") from None
    return unbiased_labels(release)[np.arange(len(chosen)), chosen]


def share_low(hits: ArrayLike, draws: ArrayLike, level: float) -> NDArray[np.float64]:
    """Returns the Clopper-Pearson lower bound of probabilities, each wrong with at most `level`."""
    hits, draws = np.asarray(hits), np.asarray(draws)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), draws - hits + 1, level), 0.0)


def exact_interval(hits: int, draws: int, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the Clopper-Pearson interval of a probability."""
    tail = (1 - confidence) / 2
    return float(share_low(hits, draws, tail)), 1 - float(share_low(draws - hits, draws, tail))


def share_with_interval(
    estimates: NDArray[np.float64], values: Sequence[float] | None, confidence: float = 0.95,
    persons: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
) -> Estimate:  # fmt: skip
    """Returns the mean of unbiased estimates of zeros and ones, in [0, 1], with its interval.

    Where they can take two values only, they are a coin each, whose mean probability has the exact
    interval of a binomial; coins of different probabilities spread less than equal ones (Hoeffding
    1956), so that it still holds. Otherwise by the t law; where all are alike, which leaves it
    nothing to go by, from the range of the values alone (Hoeffding 1963).

    Rows of one person are alike: a hundred rows of ten people tell less than rows of a hundred.
    With `persons` the t law counts people, by the sum of what each of them adds to the mean
    (Liang and Zeger 1986). With weights it is their weighted mean, by the t law too, for weights as
    they are, not as numbers of rows (Binder 1983): ten times the weights say no more.

    Args:
        estimates: (N,).
        values: that the law of a release lets them take, sorted, whether they do here or not; None:
            any.
        confidence: in (0, 1).
        persons: (N,), whose row each is; None: every row is a person of its own.
        sample_weight: >= 0, (N,); None: all are 1.

    Raises:
        InputError: no row, another number of persons than rows, a row without a person.
    """
    check_number("confidence", confidence, above=0, below=1)
    size = len(estimates)
    if not size:
        raise InputError("an estimate needs at least one row")
    whose = np.arange(size) if persons is None else numbered(persons, size)
    weights = checked_weights(sample_weight, size)
    is_plain = weights is None or bool((weights == 1).all())
    rows_of = np.bincount(whose, weights)
    mean = float(np.average(estimates, weights=weights))
    if len(rows_of) == size and is_plain and values is not None and len(values) == 2:
        first, second = values
        ones = int((estimates > (first + second) / 2).sum())
        ends = exact_interval(ones, size, confidence)
        low, high = (first + (second - first) * end for end in ends)
    elif len(rows_of) == 1 or (estimates == estimates[0]).all():
        width = values[-1] - values[0] if values else math.inf
        reach = (
            width * math.sqrt(math.log(2 / (1 - confidence)) * float(rows_of @ rows_of) / 2) / size
        )
        low, high = mean - reach, mean + reach
    else:
        people = len(rows_of)
        added = np.bincount(whose, (estimates - mean) * (1 if weights is None else weights))
        error = math.sqrt(people / (people - 1) * float(added @ added)) / size
        reach = float(stdtrit(people - 1, (1 + confidence) / 2)) * error
        low, high = mean - reach, mean + reach
    return _inside(mean, low, high)


def _inside(mean: float, low: float, high: float) -> Estimate:
    """Returns the most likely share in [0, 1], and those that are not much less likely.

    With d the distance of the mean from [0, 1], and r that of an end from the mean, these are the
    shares s with (mean - s)^2 <= d^2 + r^2: the likelihood ratio to the best share in [0, 1], for
    a mean with normal noise. Inside [0, 1] it is the interval as it was given.
    """
    value = min(1.0, max(0.0, mean))
    beyond = abs(mean - value)
    below, above = mean - low, high - mean
    low, high = mean - math.hypot(beyond, below), mean + math.hypot(beyond, above)
    if beyond > 2 * (above if mean < 0 else below):
        warnings.warn(
            f"a share of {mean:.3f} is far outside [0, 1]: the releases do not look like the "
            "output of the mechanism that their manifest names",
            stacklevel=3,
        )
    return Estimate(value, max(0.0, low), min(1.0, high))


def check_classes_released(release: object) -> None:
    """Refuses anything but a release of classes."""
    if not isinstance(release, Release):
        raise InputError(f"a release of classes is needed, got {type(release).__name__}")
    if not release.classes:
        raise InputError("a release of classes is needed, got one of numbers")
