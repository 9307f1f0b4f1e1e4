"""Slopes of log risk, with intervals that follow from each point's standard error."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

DRAWS = 4000


@dataclass(frozen=True)
class Slope:
    """A least-squares slope on log-log axes and its 95 % interval."""

    measured: float
    low: float
    high: float


def fit_slope(
    x: Sequence[float], risks: Sequence[Sequence[float]], errors: Sequence[Sequence[float]]
) -> Slope:
    """Returns the slope of log risk against log x; of several tunings the best at each point.

    The interval is a parametric bootstrap: every mean risk is drawn anew from a normal law with
    its standard error over trials, the best tuning is chosen anew, and the slope fitted anew. It
    covers noise of the trials, not the curvature of a finite range.

    Args:
        x: at least two different values, > 0.
        risks: of each x the mean risk of each tuning.
        errors: their standard errors.

    >>> fit_slope([1, 10, 100], [[1.0], [0.1], [0.01]], [[0.0], [0.0], [0.0]]).measured
    -1.0
    """
    log_x = np.log(np.asarray(x, dtype=float))
    weights = (log_x - log_x.mean()) / np.square(log_x - log_x.mean()).sum()
    # A tuning that a point lacks has an infinite risk, so that it is never the best.
    table = np.array(list(zip_longest(*risks, fillvalue=np.inf))).T
    sems = np.array(list(zip_longest(*errors, fillvalue=0.0))).T
    noise = np.random.default_rng(0).standard_normal((DRAWS, *table.shape))
    drawn = np.maximum(table + sems * noise, table / 10)
    slopes = np.log(drawn.min(2)) @ weights
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Slope(round(float(np.log(table.min(1)) @ weights), 12), float(low), float(high))
