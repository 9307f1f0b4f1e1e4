"""How much public columns say of each other: a guess of how much they say of a secret label."""

import numpy as np
from numpy.typing import NDArray

from labeldp.support.validate import InputError

MOST_ROWS = 2000
HALVES = 20
PENALTY = 0.1
"""Of each standardised column, in units of the number of rows."""
FEWEST_ROWS = 20


def redundancy(features: NDArray[np.float64]) -> float | None:
    """Returns how well one half of the columns says a label made up from the other half.

    The label: whether a random linear rule of half of the columns is above its median. Half of the
    rows learn it from the other columns, by least squares, the other rows measure the accuracy a;
    the mean of 2 a - 1 over twenty random halves is about 0 where columns are independent, and 1
    where each can be said from the others. It looks at no label, so it costs no privacy. None for
    less than two columns that vary, which say nothing of each other.

    Args:
        features: (n, d), finite.

    Raises:
        InputError: too few rows, or entries that are no numbers.

    >>> x = np.random.default_rng(0).standard_normal((500, 1))
    >>> redundancy(np.concatenate([x, 2 * x], axis=1)) > 0.95
    True
    """
    if features.ndim != 2 or not np.isfinite(features).all():
        raise InputError("X must be numbers of shape (n, d), without missing ones")
    if len(features) < FEWEST_ROWS:
        raise InputError(f"X must have at least {FEWEST_ROWS} rows, got {len(features)}")
    stream = np.random.default_rng(0)
    chosen = features[stream.permutation(len(features))[:MOST_ROWS]]
    spread = chosen.std(0)
    varies = spread > 1e-12 * np.maximum(1, np.abs(chosen.mean(0)))
    scaled = ((chosen - chosen.mean(0)) / np.where(varies, spread, 1))[:, varies]
    if scaled.shape[1] < 2:
        return None
    return float(np.mean([_said(scaled, stream) for _ in range(HALVES)]))


def _said(columns: NDArray[np.float64], stream: np.random.Generator) -> float:
    """Returns 2 a - 1 for one random half."""
    size, count = columns.shape
    own, others = np.array_split(stream.permutation(count), [count // 2])
    rule = columns[:, own] @ stream.standard_normal(len(own))
    label = np.where(rule > np.median(rule), 1.0, -1.0)
    fitted = size // 2
    inputs = np.concatenate([columns[:, others], np.ones((size, 1))], axis=1)
    penalty = PENALTY * fitted * np.eye(inputs.shape[1])
    penalty[-1, -1] = 1e-9  # the constant
    known = inputs[:fitted]
    weights = np.linalg.solve(known.T @ known + penalty, known.T @ label[:fitted])
    right = (inputs[fitted:] @ weights > 0) == (label[fitted:] > 0)
    return float(2 * right.mean() - 1)
