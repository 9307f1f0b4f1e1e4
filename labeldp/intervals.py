"""Confidence intervals for ratios of means, whose terms are unbiased estimates for each row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from labeldp.estimates import Estimate, share_with_interval
from labeldp.names import numbered
from labeldp.support.validate import check_number

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """Unbiased estimates of zeros and ones, whose mean is a metric on its own.

    Attributes:
        hits: (M,), of the rows that count.
        rows: int64 (M,), which of all rows they are.
        values: that the distribution of a release lets them take; None: any.
    """

    hits: Rows
    rows: NDArray[np.int64]
    values: Sequence[float] | None


@dataclass(frozen=True)
class Terms:
    """A metric as an average of R ratios of means.

    Attributes:
        tops: (N, R), the terms of the numerators.
        bottoms: (N, R), the terms of the denominators; None: all 1, the metric is a mean.
        low, high: the range of the metric.
        unit: (R,), what one more row of the class adds to the sum of the denominator.
        wider: factor of the interval's width, found by simulation (benchmarks/coverage.py).
        excess: by how much the metric may be overstated, whatever the number of rows.
        share: the same metric as a share, which has a better interval.
        reason: why there is no answer whatever the rows are; empty: there may be one.
    """

    tops: Rows
    bottoms: Rows | None = None
    low: float = 0.0
    high: float = 1.0
    unit: ArrayLike = 1.0
    wider: float = 1.0
    excess: float = 0.0
    share: Share | None = None
    reason: str = ""


def unknown(low: float, high: float, reason: str) -> Estimate:
    """Returns the answer "cannot be said": NaN, with the whole range as its interval."""
    return Estimate(math.nan, low, high, reason)


UNTOLD = "the number of rows of a class cannot be told from 0 (more rows, or a larger eps)"
FEW = "an interval needs at least two rows, of two persons"


def interval(terms: Terms, confidence: float = 0.95, persons: ArrayLike | None = None) -> Estimate:
    """Returns the metric with its interval.

    A mean of zeros and ones has the interval of `share_with_interval`, any other mean that of the
    t distribution. A single ratio has Fieller's (1954), an average of ratios that of the delta
    method, widened as Fieller's is. Before the interval of a ratio, `z**2` rows without noise are
    added, half of them hits: without it, a ratio near 0 or 1 of few rows would look certain
    (Agresti and Coull 1998).

    Args:
        terms: of N rows.
        confidence: in (0, 1).
        persons: (N,), whose row each is; None: every row is a person of its own.
    """
    check_number("confidence", confidence, above=0, below=1)
    if terms.reason:
        return unknown(terms.low, terms.high, terms.reason)
    if terms.share is not None:
        share = terms.share
        whose = None if persons is None else np.asarray(persons)[share.rows]
        return share_with_interval(share.hits, share.values, confidence, whose)
    sums = _by_person(persons, terms.tops)
    if len(sums) < 2:
        return unknown(terms.low, terms.high, FEW)
    z = float(stdtrit(len(sums) - 1, (1 + confidence) / 2))
    if terms.bottoms is None:
        return _mean(sums, len(terms.tops), z, terms)
    below = _by_person(persons, terms.bottoms)
    uncertain = float(_uncertainty(below, z).max())
    if uncertain >= 1:
        return unknown(terms.low, terms.high, UNTOLD)
    # Of denominators near 0, those that chance made large are told from it.
    z *= terms.wider * (1 + uncertain / 2)
    value = float(np.clip((sums.sum(0) / below.sum(0)).mean(), terms.low, terms.high))
    unit = np.broadcast_to(terms.unit, sums.shape[1:])
    ends = (_fieller if sums.shape[1] == 1 else _delta)(sums, below, z, unit)
    if ends is None:
        ends = terms.low, terms.high
    return _within(value, *ends, terms.low, terms.high)


def difference(
    first: Terms, second: Terms, confidence: float = 0.95, persons: ArrayLike | None = None
) -> Estimate:
    """Returns the first metric less the second, of the same rows, with the interval of the pairs.

    By the delta method: what each row adds to the difference is known, so that all that the two
    share, noise of labels included, leaves the interval.
    """
    check_number("confidence", confidence, above=0, below=1)
    width = max(first.high, second.high) - min(first.low, second.low)
    if reason := first.reason or second.reason:
        return unknown(-width, width, reason)
    added, values = np.zeros(len(first.tops)), []
    whose = np.arange(len(added)) if persons is None else numbered(persons, len(added))
    people = int(whose.max(initial=-1)) + 1
    if people < 2:
        return unknown(-width, width, FEW)
    z = float(stdtrit(people - 1, (1 + confidence) / 2)) * max(first.wider, second.wider)
    for sign, terms in ((1, first), (-1, second)):
        bottoms = np.ones_like(terms.tops) if terms.bottoms is None else terms.bottoms
        uncertain = _uncertainty(_by_person(persons, bottoms), z)
        if (uncertain >= 1).any():
            return unknown(-width, width, UNTOLD)
        ratios = terms.tops.sum(0) / bottoms.sum(0)
        each = (terms.tops - ratios * bottoms) / bottoms.sum(0) / (1 - uncertain)
        added = added + sign * each.mean(1)
        values.append(float(ratios.mean()))
    error = math.sqrt(people / (people - 1) * float(np.square(np.bincount(whose, added)).sum()))
    value, reach = values[0] - values[1], z * error
    low, high = value - reach - first.excess, value + reach + second.excess
    return _within(value, low, high, -width, width)


def _by_person(persons: ArrayLike | None, terms: Rows) -> Rows:
    """Returns the sums of the terms of each person, (people, R)."""
    if persons is None:
        return terms
    whose = numbered(persons, len(terms))
    sums = np.zeros((int(whose.max(initial=-1)) + 1, terms.shape[1]))
    np.add.at(sums, whose, terms)
    return sums


def _spread(first: Rows, second: Rows) -> Rows:
    """Returns the covariance of two sums over rows or persons, (R,)."""
    people = len(first)
    moments = ((first - first.mean(0)) * (second - second.mean(0))).sum(0)
    return moments * people / (people - 1)


def _uncertainty(bottoms: Rows, z: float) -> Rows:
    """Returns how much of each denominator may be chance, (R,): from 1 on, all of it."""
    total = bottoms.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = z**2 * _spread(bottoms, bottoms) / total**2
    return np.where(total > 0, share, np.inf)


def _mean(sums: Rows, rows: int, z: float, terms: Terms) -> Estimate:
    value = float(sums.sum(0).mean()) / rows
    reach = z * math.sqrt(float(_spread(sums.mean(1), sums.mean(1)))) / rows
    return _within(value, value - reach - terms.excess, value + reach, terms.low, terms.high)


def _with_added(sums: Rows, below: Rows, z: float, unit: Rows) -> list[Rows]:
    """Returns sums, variances and covariance of both, with z^2 rows added, each (R,)."""
    more = z**2 * unit
    return [
        sums.sum(0) + more / 2,
        below.sum(0) + more,
        _spread(sums, sums) + more * unit / 2,
        _spread(below, below) + more * unit,
        _spread(sums, below) + more * unit / 2,
    ]


def _fieller(sums: Rows, below: Rows, z: float, unit: Rows) -> tuple[float, float] | None:
    """Returns the r with |top - r bottom| <= z times its standard error; None: not an interval."""
    top, bottom, vtt, vbb, vtb = (float(part[0]) for part in _with_added(sums, below, z, unit))
    square = bottom**2 - z**2 * vbb
    if square <= 0:
        return None
    half, rest = top * bottom - z**2 * vtb, top**2 - z**2 * vtt
    reach = math.sqrt(max(0.0, half**2 - square * rest))
    return (half - reach) / square, (half + reach) / square


def _delta(sums: Rows, below: Rows, z: float, unit: Rows) -> tuple[float, float] | None:
    """Returns the ends of the interval of an average of ratios; None: not an interval."""
    top, bottom, *_ = _with_added(sums, below, z, unit)
    ratios, sure = top / bottom, 1 - _uncertainty(below, z)
    if (sure <= 0).any():
        return None
    each = ((sums - ratios * below) / (bottom * sure)).mean(1)
    added = z**2 * unit**2 * ((1 - ratios) ** 2 + ratios**2) / 2 / (bottom * sure) ** 2
    error = math.sqrt(float(_spread(each, each)) + float(added.sum()) / len(added) ** 2)
    return float(ratios.mean()) - z * error, float(ratios.mean()) + z * error


def _within(value: float, low: float, high: float, least: float, most: float) -> Estimate:
    """Returns an estimate whose interval holds its value and lies in the range."""
    value = min(most, max(least, value))
    return Estimate(value, max(least, min(low, value)), min(most, max(high, value)))


def pairs(weights: Rows, others: Rows, scores: Rows) -> tuple[Rows, Rows]:
    """Returns the terms of the area under the ROC curve, numerator and denominator, (N,) each.

    Over all pairs of different rows i and j: weights_i others_j [s_i > s_j], ties count half, over
    weights_i others_j. Noise of different rows is independent, so that both sums are unbiased. The
    terms are the jackknife's pseudo-values: their mean is the sum over the pairs, and their
    variance that of a U-statistic (Hoeffding 1948; Arvesen 1969).

    Args:
        weights: unbiased estimates of whether a row is of the class, (N,).
        others: of whether it is of another class.
        scores: larger: more likely of the class.
    """
    _, place = np.unique(scores, return_inverse=True)
    below, own = _below_and_own(others, place)
    lower = below + own / 2 - others / 2  # a row makes no pair with itself
    under, same = _below_and_own(weights, place)
    higher = weights.sum() - under - same / 2 - weights / 2
    tops = _pseudo_values(weights * lower, weights * lower + others * higher)
    all_others, all_weights = others.sum() - others, weights.sum() - weights
    bottoms = _pseudo_values(weights * all_others, weights * all_others + others * all_weights)
    return tops, bottoms


def _below_and_own(weights: Rows, place: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Returns the sum of the weights of rows below each row's score, and of those at it."""
    sums: Rows = np.bincount(place, weights).astype(np.float64)
    return (sums.cumsum() - sums)[place], sums[place]


def _pseudo_values(each: Rows, involved: Rows) -> Rows:
    """Returns the jackknife's pseudo-values of a sum over ordered pairs, / N (N - 1).

    Args:
        each: (N,), with the sum over all pairs as its sum.
        involved: (N,), the sum over the pairs that a row is in.
    """
    size, total = len(each), each.sum()
    return total / (size - 1) - (total - involved) / (size - 2)


def precisions(weights: Rows, scores: Rows) -> Rows:
    """Returns the terms of the numerator of average precision, (N,); the weights are those below.

    Average precision is the mean, over the rows of the class, of the share of the class among the
    rows with at least their score. That share counts the row itself once, as 1: its estimate is
    not squared, so that the sum is unbiased over the noise. The terms are the jackknife's
    pseudo-values.
    """
    names, place = np.unique(-scores, return_inverse=True)
    count = np.bincount(place, minlength=len(names)).cumsum()[place].astype(float)
    above = np.bincount(place, weights, len(names)).cumsum()[place] - weights  # others, ties too
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = weights * (1 + above) / count
        later = np.where(count > 1, weights * (1 + above) / (count - 1), 0.0)
        slope = np.where(count > 1, weights / (count - 1), 0.0)

    # Without row k, rows at or below its score lose it from their counts.
    def at_or_below(part: Rows) -> Rows:
        sums = np.bincount(place, part, len(names))
        return (sums[::-1].cumsum()[::-1])[place] - part

    total = alone.sum()
    without = total - alone - at_or_below(alone) + at_or_below(later) - weights * at_or_below(slope)
    return total - without
