"""How good a model is, from releases alone: metrics with intervals, without a true label.

Each function takes a release, and what the model says of its rows:

- scores: (N, K) probabilities or other scores, columns as `release.classes`, which are sorted as
  scikit-learn sorts them. Of two classes (N,) floats are the probability of the second one, in
  [0, 1]. Scores must be out of fold: of a model that was not fitted to the same rows
  (`labeldp.cross_val_predict`).
- or predicted classes (N,), where a metric needs no scores; whole floats may name them.
- or a fitted model, with the features `X` in the order of the release; rows of its fit are refused.

Each returns an `Estimate`: `.value`, `.low`, `.high`. Where noise hides whether there is any row of
a class, the value is NaN, the interval is all that is possible, and `.reason` says why.

All take `confidence` in (0, 1), and `persons` (N,), whose row each is, where people have several.
With `design=`, of `labeldp.designs`, labels (N,) that others randomised by it take the place of the
release; `identity()`: labels as they are.
Those of one class take `positive`, its name; None: the second of two classes, as in scikit-learn,
and the mean over the classes where there are more.
"""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from labeldp.designs import Design
from labeldp.estimates import (
    Estimate,
    check_classes_released,
    possible_values,
    unbiased_labels,
)
from labeldp.intervals import Rows, Share, Terms, interval, pairs, precisions, unknown
from labeldp.intervals import difference as paired_difference
from labeldp.manifest import ClassName
from labeldp.mechanisms import Laplace, UnbiasedRandomizer
from labeldp.mechanisms.noise import step_of
from labeldp.names import as_python, first_missing, without_mask
from labeldp.release import Release
from labeldp.rows import as_release, check_order, check_size, said_of
from labeldp.support.validate import InputError, check_integer, check_number

CLIP = 1e-3
"""Smallest probability that log loss counts with: a surprise costs at most 6.9."""

Metric = Callable[..., Estimate]


@dataclass(frozen=True)
class ScoredRows:
    """A release, and what a model says of its rows.

    Attributes:
        release: of N rows of K classes.
        labels: unbiased estimates of their one-hot labels, (N, K).
        scores: (N, K); None: only the predicted classes are known.
        chosen: int64 (N,), the predicted classes: those of the highest scores, unless the model
            says others.
    """

    release: Release
    labels: Rows
    scores: Rows | None
    chosen: NDArray[np.int64]

    def ranks(self) -> Rows:
        """Returns the scores; refuses predicted classes, which rank nothing."""
        if self.scores is None:
            raise InputError("scores must be numbers (N, K) here, got predicted classes")
        return self.scores

    def probabilities(self) -> Rows:
        """Returns the scores; refuses those that are no probabilities."""
        scores = self.ranks()
        if wrong := no_probabilities(scores):
            raise InputError(f"scores must be probabilities here: row {wrong[0]} {wrong[1]}")
        return scores.clip(0, 1)

    def classes(self, positive: object) -> list[int]:
        """Returns the numbers of the classes that a metric is about."""
        names, wanted = self.release.classes, as_python(positive)
        if wanted is None:
            return [1] if len(names) == 2 else list(range(len(names)))
        if wanted not in names:
            raise InputError(f"positive must be one of the classes {names}, got {wanted!r}")
        return [names.index(wanted)]

    def of_rows(self, rows: NDArray[np.int64]) -> "ScoredRows":
        """Returns the same of some rows."""
        scores = None if self.scores is None else self.scores[rows]
        return ScoredRows(self.release[rows], self.labels[rows], scores, self.chosen[rows])


def no_probabilities(scores: Rows) -> tuple[int, str] | None:
    """Returns the first row that holds no probabilities, with the reason; None: all rows do."""
    sums, low = scores.sum(1), scores.min(1)
    for row in np.flatnonzero((low < -1e-9) | ~(np.abs(sums - 1) <= 1e-4)).tolist():
        if low[row] < 0:
            return row, f"has {low[row]:g}, below 0 (scores become probabilities by a softmax)"
        return row, f"has sum {sums[row]:.6g}, not 1 (divide each row by its sum)"
    return None


def scored_rows(
    release: Any, scores: Any, X: Any = None, design: Design | None = None
) -> ScoredRows:
    """Returns a release with what a model says of its rows.

    Args:
        release: of N rows of K classes.
        scores: an array as above, predicted class names (N,), a fitted model, or what this function
            returned for this release.
        X: features, if `scores` is a model.
        design: by which others randomised the labels, (N,), that are given for a release.

    Raises:
        InputError: another number of rows or columns; rows of the fit; a score that is no number;
            one score for each row that is no probability.
    """
    if isinstance(scores, ScoredRows) and scores.release is release:
        return scores
    release = as_release(
        release, design, X, known=np.asarray(getattr(scores, "classes_", [])).tolist()
    )
    check_classes_released(release)
    if hasattr(scores, "predict_proba"):
        scores = said_of(scores, X, release)
    elif X is not None:
        raise InputError(f"X is for a fitted classifier, got {type(scores).__name__}")
    check_order(release, scores=scores)
    array, names = np.asarray(scores), release.classes
    if isinstance(scores, pd.DataFrame) and list(scores.columns) != names:
        raise InputError(
            f"columns of scores must be the classes {names}, in this order, got "
            f"{list(scores.columns)[:10]} (or give scores.to_numpy())"
        )
    check_size(len(array) if array.ndim else 0, release)
    if not len(array):
        raise InputError("a metric needs at least one row")
    labels = unbiased_labels(release)
    if array.ndim == 1 and _are_classes(array, names):
        place = {name: number for number, name in enumerate(names)}
        wrong = [name for name in array.tolist() if name not in place]
        if wrong:
            raise InputError(f"a predicted class must be one of {names}, got {wrong[0]!r}")
        return ScoredRows(release, labels, None, np.array([place[name] for name in array.tolist()]))
    if array.ndim == 1 and len(names) == 2:
        if any(isinstance(name, float) for name in names):  # or are they the predicted classes?
            raise InputError(f"scores must have a column for each of the classes {names}")
        outside = np.flatnonzero(~((array >= 0) & (array <= 1)))
        if len(outside):  # percent or log-odds, say: 0.5 does not part their classes
            raise InputError(
                f"one score for each row must be the probability of {names[1]!r}, from 0 to 1, got "
                f"{array[outside[0]]} in row {outside[0]} (or give a column for each class)"
            )
        array = np.stack([1 - array, array], 1)
    if array.shape != (len(release), len(names)):
        raise InputError(f"scores must be ({len(release)}, {len(names)}), got {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"scores must be finite, and row {np.argwhere(~np.isfinite(array))[0][0]} "
                         "is not")  # fmt: skip
    return ScoredRows(release, labels, array, array.argmax(1))


def _are_classes(said: NDArray, names: list[ClassName]) -> bool:
    """Returns whether what is said of the rows, (N,), are predicted classes, not probabilities.

    Floats are classes if each is the name of one, as 1.0 and 2.0 are of 1 and 2.

    Raises:
        InputError: they could be both, and would not predict the same.
    """
    if said.dtype.kind != "f":
        return True
    if not np.isin(said, [name for name in names if not isinstance(name, str)]).all():
        return False
    if len(names) > 2 or not ((said >= 0) & (said <= 1)).all():
        return True
    wrong = said[(said == names[1]) != (said > 0.5)]
    if len(wrong):
        raise InputError(
            f"{wrong[0]} can be the class {wrong[0]:g} or the probability of {names[1]!r} (give "
            "classes as whole numbers, or a column of probabilities for each class)"
        )
    return False


Read = Callable[[Any, Any, Any, Design | None], Any]
"""Joins a release and what a model says of its rows: `scored_rows` or `predicted_numbers`."""
_TERMS: dict[Metric, tuple[Read, Callable[..., Terms]]] = {}
NEEDS: dict[Callable[..., Any], str] = {}
"""What each metric needs of a model: `classes`, `scores`, `probabilities` or `numbers`.

Scores give classes too, and probabilities give both.
"""


def _metric(needs: str, read: Read = scored_rows) -> Callable[[Callable[..., Terms]], Metric]:
    """Makes a metric of a function that returns its terms."""

    def decorate(terms: Callable[..., Terms]) -> Metric:
        @functools.wraps(terms)
        def metric(
            release: Any, scores: Any, *, X: Any = None, confidence: float = 0.95,
            persons: ArrayLike | None = None, design: Design | None = None, **options: Any,
        ) -> Estimate:  # fmt: skip
            given = read(release, scores, X, design)
            check_order(given.release, persons=persons)
            return interval(terms(given, **options), confidence, persons)

        own = list(inspect.signature(metric, follow_wrapped=False).parameters.values())[:-1]
        more = list(inspect.signature(terms).parameters.values())[1:]
        options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in more]
        shown = inspect.Signature([*own, *options], return_annotation=Estimate)
        vars(metric)["__signature__"] = shown
        _TERMS[metric], NEEDS[metric] = (read, terms), needs
        return metric

    return decorate


def _hits(given: ScoredRows, rows: NDArray[np.bool_] | None = None) -> Share:
    """Returns whether the predicted class is right, of the chosen rows."""
    places = np.arange(len(given.chosen)) if rows is None else np.flatnonzero(rows)
    hits = given.labels[places, given.chosen[places]]
    return Share(hits, places, possible_values(given.release))


@_metric("classes")
def accuracy(given: ScoredRows) -> Terms:
    """How often the predicted class is right."""
    share = _hits(given)
    return Terms(share.hits[:, None], share=share)


def _recalls(given: ScoredRows, numbers: list[int]) -> Terms:
    right = given.chosen[:, None] == np.array(numbers)
    labels = given.labels[:, numbers]
    return Terms(labels * right, labels)


@_metric("classes")
def recall(given: ScoredRows, positive: ClassName | None = None) -> Terms:
    """Share of the rows of a class for which it is predicted."""
    return _recalls(given, given.classes(positive))


@_metric("classes")
def balanced_accuracy(given: ScoredRows) -> Terms:
    """Mean of the recall over all classes."""
    return _recalls(given, list(range(len(given.release.classes))))


@_metric("classes")
def precision(given: ScoredRows, positive: ClassName | None = None) -> Terms:
    """Share of the rows of a class among those for which it is predicted."""
    numbers = given.classes(positive)
    chosen = given.chosen[:, None] == np.array(numbers)
    tops = given.labels[:, numbers] * chosen
    if not chosen.any(0).all():
        name = given.release.classes[numbers[int(chosen.any(0).argmin())]]
        return Terms(tops, reason=f"no row is predicted to be {name}")
    share = _hits(given, chosen[:, 0]) if len(numbers) == 1 else None
    return Terms(tops, chosen.astype(float), share=share)


@_metric("classes")
def selection_rate(given: ScoredRows, positive: ClassName | None = None) -> Terms:
    """Share of the rows for which a class is predicted; needs no label.

    Its gap between groups is that of demographic parity.
    """
    chosen = given.chosen[:, None] == np.array(given.classes(positive))
    return Terms(chosen.mean(1, keepdims=True).astype(float))


@_metric("probabilities")
def log_loss(given: ScoredRows, clip: float = CLIP) -> Terms:
    """Mean of -log of the probability of the true class, which counts as at least `clip`."""
    check_number("clip", clip, above=0, below=1)
    costs = -np.log(given.probabilities().clip(clip))
    return Terms((given.labels * costs).sum(1)[:, None], high=-math.log(clip))


@_metric("probabilities")
def brier(given: ScoredRows) -> Terms:
    """Mean squared distance of the probabilities from the one-hot label.

    Summed over the classes; of two classes half of it, as in scikit-learn.
    """
    probabilities = given.probabilities()
    scale = 0.5 if probabilities.shape[1] == 2 else 1.0
    # 1 - 2 p_y + sum p^2 for the true class y, as a cost of each class.
    costs = 1 - 2 * probabilities + np.square(probabilities).sum(1, keepdims=True)
    return Terms(scale * (given.labels * costs).sum(1)[:, None], high=2 * scale)


@_metric("scores")
def roc_auc(given: ScoredRows, positive: ClassName | None = None) -> Terms:
    """Chance that a row of the class has a higher score than one of another class.

    Ties count half. Of the class against all the others, where there are more than two.
    """
    numbers = given.classes(positive)
    scores, labels = given.ranks(), given.labels
    if len(scores) < 3:
        return Terms(labels, reason="it takes at least three rows")
    both = np.array([pairs(labels[:, c], 1 - labels[:, c], scores[:, c]) for c in numbers])
    share = labels[:, numbers].mean(0).clip(0, 1)
    unit = np.maximum(share, 1 - share)  # pairs that one more row of the rarer side makes
    return Terms(both[:, 0].T, both[:, 1].T, unit=unit)


@_metric("scores")
def average_precision(given: ScoredRows, positive: ClassName | None = None) -> Terms:
    """Mean, over the rows of the class, of the precision among rows with at least their score.

    The area under the precision-recall curve, by steps. The jackknife takes off its bias in small
    samples, so that without noise it differs a little from scikit-learn's.
    """
    numbers = given.classes(positive)
    labels, scores = given.labels[:, numbers], given.ranks()[:, numbers]
    tops = [precisions(labels[:, place], scores[:, place]) for place in range(len(numbers))]
    return Terms(np.stack(tops, 1), labels, wider=1.15)


def lift(
    release: Any, scores: Any, *, X: Any = None, share: float = 0.1,
    positive: ClassName | None = None, confidence: float = 0.95, persons: ArrayLike | None = None,
    design: Design | None = None,
) -> Estimate:  # fmt: skip
    """How many times as frequent a class is among the rows with its highest scores as among all.

    `share`, in (0, 1), says how many rows count as the highest; rows tied with the last one do too.
    Where there are more than two classes, `positive` is needed.
    """
    check_number("share", share, above=0, below=1)
    given = scored_rows(release, scores, X, design)
    check_order(given.release, persons=persons)
    numbers = given.classes(positive)
    if len(numbers) > 1:
        raise InputError(f"lift needs a class (give positive=, one of {given.release.classes})")
    ranks = given.ranks()[:, numbers[0]]
    top = ranks >= np.sort(ranks)[::-1][math.ceil(share * len(ranks)) - 1]
    labels = given.labels[:, numbers]
    found = interval(Terms(labels * top[:, None], labels), confidence, persons)
    size = float(top.mean())
    return Estimate(found.value / size, found.low / size, found.high / size, found.reason)


@dataclass(frozen=True)
class ConfusionMatrix:
    """Shares of all rows by true and predicted class, with the ends of their intervals.

    Attributes:
        value, low, high: (K, K) data frames; a row for each true class, a column for each
            predicted one.
    """

    value: pd.DataFrame
    low: pd.DataFrame
    high: pd.DataFrame


def confusion_matrix(
    release: Any, scores: Any, *, X: Any = None, confidence: float = 0.95,
    persons: ArrayLike | None = None, design: Design | None = None,
) -> ConfusionMatrix:  # fmt: skip
    """Returns the share of all rows with each true and predicted class; each interval by itself."""
    given = scored_rows(release, scores, X, design)
    names = given.release.classes
    check_order(given.release, persons=persons)
    cells = np.empty((3, len(names), len(names)))
    for true, predicted in np.ndindex(cells.shape[1:]):
        terms = Terms((given.labels[:, true] * (given.chosen == predicted))[:, None])
        found = interval(terms, confidence, persons)
        cells[:, true, predicted] = found.value, found.low, found.high
    axes = {"index": pd.Index(names, name="true"), "columns": pd.Index(names, name="predicted")}
    return ConfusionMatrix(*(pd.DataFrame(each, **axes) for each in cells))


def calibration_error(
    release: Any, scores: Any, *, X: Any = None, bins: int = 10, confidence: float = 0.95,
    design: Design | None = None,
) -> Estimate:  # fmt: skip
    """Root mean square of accuracy less confidence, over bins of about equally many rows.

    The confidence is the probability of the predicted class, by which the rows are sorted into the
    bins. Each bin's squared gap is taken over pairs of different rows, which removes the noise's
    part of it (as Kumar et al. 2019 do for sampling); the interval is that of a noncentral
    chi-square distribution with the same mean and variance as the noise of all bins. There is at
    least one bin, and two rows or more in each.
    """
    check_number("confidence", confidence, above=0, below=1)
    given = scored_rows(release, scores, X, design)
    sure, chosen = given.probabilities().max(1), given.probabilities().argmax(1)
    check_integer("bins", bins, low=1, high=max(1, len(sure) // 2))
    if len(sure) < 2:
        return unknown(0.0, 1.0, "it takes at least two rows")
    gaps = given.labels[np.arange(len(sure)), chosen] - sure
    parts = np.array_split(gaps[np.argsort(sure, kind="stable")], bins)
    weight = np.array([len(part) for part in parts]) / len(sure)
    # Two rows more, a hit and a miss, so that a bin without misses is not certain.
    noise = weight * [
        (np.square(part - part.mean()).sum() + 0.5) / (len(part) - 1) / len(part) for part in parts
    ]
    raw = float(weight @ [part.mean() ** 2 for part in parts])
    scale = float(noise @ noise / noise.sum())
    freedom = float(noise.sum() ** 2 / (noise @ noise))
    value = math.sqrt(min(1.0, max(0.0, raw - float(noise.sum()))))
    tail = (1 - confidence) / 2
    low, high = (_noncentrality(raw / scale, freedom, tail) for tail in (1 - tail, tail))
    low, high = (min(1.0, math.sqrt(end * scale)) for end in (low, high))
    return Estimate(value, min(low, value), max(high, value))


NEEDS |= {lift: "scores", confusion_matrix: "classes", calibration_error: "probabilities"}


def _noncentrality(statistic: float, freedom: float, probability: float) -> float:
    """Returns the noncentrality at which the statistic is that quantile; 0 if there is none."""
    from scipy.stats import ncx2  # its import takes a second, which no other metric needs

    def excess(size: float) -> float:
        return float(ncx2.cdf(statistic, freedom, max(size, 1e-12))) - probability

    most = 2 * statistic + 100.0 + 20 * math.sqrt(statistic + freedom)
    return float(brentq(excess, 0.0, most)) if excess(0.0) > 0 else 0.0


@dataclass(frozen=True)
class PredictedNumbers:
    """A release of numbers, or of classes that are numbers, and what a model predicts.

    Attributes:
        release: of N rows.
        predictions: (N,).
    """

    release: Release
    predictions: Rows

    def of_rows(self, rows: NDArray[np.int64]) -> "PredictedNumbers":
        """Returns the same of some rows."""
        return PredictedNumbers(self.release[rows], self.predictions[rows])

    def error(self, power: int) -> Terms:
        """Returns the terms of the mean of |true number - prediction| to a power, 1 or 2."""
        release, predicted = self.release, self.predictions[:, None]
        if release.classes:
            costs = np.abs(np.array(release.classes, float) - predicted) ** power
            terms = (unbiased_labels(release) * costs).sum(1, keepdims=True)
            return Terms(terms, high=float(costs.max()))
        assert release.manifest.bounds is not None, "a release of numbers has them"
        low, high = release.manifest.bounds
        most = float(np.abs(predicted - np.array([low, high])).max() ** power)
        mechanism, values = release.manifest.mechanism, release.unbiased_values()[:, None]
        if math.isinf(mechanism.eps):
            return Terms(np.abs(values - predicted) ** power, high=most)
        if isinstance(mechanism, Laplace):
            if power == 1:
                reason = (
                    f"{release.mechanism} does not tell absolute errors (release the numbers "
                    "by unbiased_randomizer)"
                )
                return Terms(values, high=most, reason=reason)
            return Terms((values - predicted) ** 2 - _variance(mechanism, high - low), high=most)
        assert isinstance(mechanism, UnbiasedRandomizer), "there is no third one"
        channel, outputs = (each.numpy() for each in mechanism.channel(1.0))
        weight = channel.mean(0)
        inverse = np.linalg.solve((channel * weight) @ channel.T, channel * weight)  # (levels, V)
        levels = np.linspace(low, high, len(channel))
        number = np.abs(release.outputs.numpy()[:, None] - outputs).argmin(1)
        costs = np.abs(levels - predicted) ** power
        # A number between two levels counts as one of them, which only adds to a convex error.
        between = (levels[1] - levels[0]) / 2
        terms = (inverse.T[number] * costs).sum(1, keepdims=True)
        return Terms(terms, high=most, excess=between**power)


def _variance(mechanism: Laplace, width: float) -> float:
    """Returns the variance of discrete Laplace noise on numbers in a range of this width."""
    step = step_of(1.0)
    ratio = math.exp(-step / mechanism.scale(1.0))
    return 2 * ratio / (1 - ratio) ** 2 * (step * width / 2) ** 2


def predicted_numbers(
    release: Any, predictions: Any, X: Any = None, design: Design | None = None
) -> PredictedNumbers:
    """Returns a release with the numbers that a model predicts for its rows.

    Args:
        release: of numbers, or of classes that are numbers.
        predictions: (N,), or a fitted model.
        X: features, if `predictions` is a model.
        design: as of `scored_rows`; with `identity()` labels are numbers.

    Raises:
        InputError: classes that are no numbers; rows of the fit; another number of rows.
    """
    are_numbers = isinstance(design, Design) and not design.classes
    release = as_release(release, design, X, of_numbers=are_numbers)
    if not isinstance(release, Release):
        raise InputError(f"a release is needed, got {type(release).__name__}")
    if wrong := [name for name in release.classes if isinstance(name, str | bool)]:
        raise InputError(f"errors need classes that are numbers, got {wrong[0]!r}")
    if hasattr(predictions, "predict"):
        predictions = said_of(predictions, X, release, "predict")
    check_order(release, predictions=predictions)
    try:
        array = np.asarray(predictions, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("predictions must be numbers") from None
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"predictions must be finite numbers (N,), got {array.shape}")
    check_size(len(array), release)
    if not len(array):
        raise InputError("a metric needs at least one row")
    return PredictedNumbers(release, array)


@_metric("numbers", predicted_numbers)
def mean_squared_error(given: PredictedNumbers) -> Terms:
    """Mean squared distance of predicted numbers from the true ones, without that of the noise.

    `unbiased_randomizer` rounds numbers to its levels at random, which may add up to a quarter of
    a level squared; the interval allows for it.
    """
    return given.error(2)


@_metric("numbers", predicted_numbers)
def mean_absolute_error(given: PredictedNumbers) -> Terms:
    """Mean distance of predicted numbers from the true ones.

    Releases by `laplace` do not tell it. Those by `unbiased_randomizer` do, up to half a level; the
    interval allows for it.
    """
    return given.error(1)


def difference(
    metric: Metric, release: Any, scores_a: Any, scores_b: Any, *, X: Any = None,
    confidence: float = 0.95, persons: ArrayLike | None = None, design: Design | None = None,
    **options: Any,
) -> Estimate:  # fmt: skip
    """Returns a metric of the first model less that of the second one, on the same rows.

    The interval is that of the pairs, which is narrower than those of the two models. `metric` is
    any but `lift`, `confusion_matrix` and `calibration_error`; it takes the `options`, such as
    `positive`.

    Raises:
        InputError: another metric; otherwise as the metric.
    """
    read, terms = _terms_of(metric)
    both = [
        read(release, scores, X if hasattr(scores, "predict") else None, design)
        for scores in (scores_a, scores_b)
    ]
    known, other = (given.release.classes for given in both)
    if known != other:  # of identity(), whose classes are a model's too
        raise InputError(
            f"both models must have the same classes, got {known} and {other} (give scores with a "
            "column for each class, and design=identity(classes))"
        )
    check_order(both[0].release, persons=persons)
    first, second = (terms(given, **options) for given in both)
    return paired_difference(first, second, confidence, persons)


def group_gap(
    metric: Metric, release: Any, scores: Any, groups: ArrayLike, *, X: Any = None,
    confidence: float = 0.95, design: Design | None = None, **options: Any,
) -> Estimate:  # fmt: skip
    """Returns a metric in the first of two groups less that in the second one.

    With `recall` it is the gap of equal opportunity, with `selection_rate` that of demographic
    parity. `groups`, (N,), has exactly two names, of which the first is the one that is sorted
    first; `metric` and `options` are as of `difference`.

    Raises:
        InputError: one group, or more than two; otherwise as the metric.
    """
    read, terms = _terms_of(metric)
    given = read(release, scores, X, design)
    release = given.release
    check_order(release, groups=groups)
    whose = without_mask(groups)
    if (row := first_missing(whose)) is not None:
        raise InputError(
            f"groups: row {row} has no group (name one, or leave such rows out of release, scores "
            "and groups)"
        )
    names, place = np.unique(whose, return_inverse=True)
    if whose.shape != (len(release),) or len(names) != 2:
        raise InputError(
            f"groups must name two groups, for {len(release)} rows, got {len(names)} for "
            f"{whose.size} (compare two at a time: release[rows], scores[rows], groups[rows])"
        )
    parts = [terms(given.of_rows(np.flatnonzero(place == group)), **options) for group in (0, 1)]
    apart = [_padded(part, place == group) for group, part in enumerate(parts)]
    return paired_difference(apart[0], apart[1], confidence)


def _padded(terms: Terms, rows: NDArray[np.bool_]) -> Terms:
    """Returns terms of some rows as terms of all rows, those of the others 0."""

    def padded(part: Rows) -> Rows:
        whole = np.zeros((len(rows), part.shape[1]))
        whole[rows] = part
        return whole

    bottoms = np.ones_like(terms.tops) if terms.bottoms is None else terms.bottoms
    return replace(terms, tops=padded(terms.tops), bottoms=padded(bottoms), share=None)


def _terms_of(metric: Metric) -> tuple[Read, Callable[..., Terms]]:
    if metric not in _TERMS:
        known = ", ".join(each.__name__ for each in _TERMS)
        raise InputError(f"metric must be one of labeldp.metrics: {known}")
    return _TERMS[metric]
