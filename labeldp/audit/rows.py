"""Whether every output follows from its own label, and has noise of its own, at any distance.

Rows that share noise, or an output that shows the label of another row, have the law that each row
should have by itself: nothing that is asked of single rows sees them. Whoever knows some labels
reads others off.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm, rankdata
from torch import Tensor

from labeldp.audit.events import MOST_VALUES

ROWS = 2**16
"""That are compared, at most."""
FEATURES = 4
LEVEL = 1e-6
"""A p-value below it says that rows are not apart."""
FEWEST = 400
"""Coincidences that must be expected, or a normal law is none of their number."""


def row_independence_test(outputs: Tensor, is_first: Tensor) -> float:
    """Returns the p-value of the largest correlation between different rows.

    Correlated are what an output has beyond the mean of its label, with the same of other rows and
    with their labels, at every distance, all numbered from the first row round to the last.

    Args:
        outputs: of one call, (n,) or (n, D).
        is_first: which of two labels each row has, bool (n,); drawn by a coin for each.
    """
    first = is_first.numpy()
    if len(first) < 4 or not first.any() or first.all():
        return 1.0
    sign = np.where(first, 1.0, -1.0)
    found = []
    for feature in _features(outputs.numpy()):
        rest = feature - np.where(first, feature[first].mean(), feature[~first].mean())
        pairs = [(feature, sign)]
        if rest.std() > 1e-9 * feature.std():  # else the label alone decides
            pairs += [(rest, rest), (rest * sign, rest * sign)]
        for one, other in pairs:
            found += _largest(one, other)
    return min(1.0, len(found) * min(found)) if found else 1.0


def _features(outputs: NDArray) -> list[NDArray[np.float64]]:
    """Returns a few numbers of each output, float64 (n,) each."""
    rows = outputs.reshape(len(outputs), -1).astype(np.float64)
    if rows.shape[1] == 1:
        values, counts = np.unique(rows, return_counts=True)
        if len(values) <= MOST_VALUES:
            often = values[np.argsort(-counts, kind="stable")[:FEATURES]]
            return [(rows[:, 0] == value).astype(np.float64) for value in often]
    widest = np.argsort(-rows.std(0), kind="stable")[:FEATURES]
    return [rankdata(rows[:, column]) for column in widest]  # long tails would hide the rest


def _largest(one: NDArray[np.float64], other: NDArray[np.float64]) -> list[float]:
    """Returns the p-value of the largest correlation at any distance but 0, if one can be told."""
    size = len(one)
    one, other = one - one.mean(), other - other.mean()
    # How many rows there would be if all counted alike: few where an event is rare.
    weights = [
        (part**2).sum() ** 2 / (part**4).sum() if part.any() else 0.0 for part in (one, other)
    ]
    if weights[0] * weights[1] / size < FEWEST:
        return []
    sums = np.fft.irfft(np.fft.rfft(one) * np.fft.rfft(other).conj(), size)[1:]
    spread = one.std() * other.std() * np.sqrt(size)
    return [float(min(1.0, 2 * norm.sf(np.abs(sums).max() / spread) * len(sums)))]


def two_inputs(count: int, either: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Returns one of two numbers for each of `count` rows, by a coin for each, int64."""
    return torch.tensor(either)[torch.randint(2, (count,), generator=generator)]
