"""Randomised response on bins of a real label."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.classes import two_levels
from labeldp.mechanisms.draws import Noise, integers, uniforms
from labeldp.mechanisms.real import GridMechanism


@dataclass(frozen=True)
class RROnBins(GridMechanism):
    """Maps the label to one of m values and applies randomised response to these.

    eps-label-DP under label replacement, tight for m >= 2. m, the bins and their values minimise
    the expected squared error of the release under a prior, by an exact dynamic programme over
    `levels` equally spaced labels. The release is biased.

    Source: Ghazi et al. (2023), "Regression with label differential privacy", arXiv:2212.06074,
    algorithm 2; the programme is our derivation (docs/theory-real-labels.md).

    Args:
        levels: labels are rounded to as many values, >= 2.
    """

    levels: int = 64

    most_levels: ClassVar[int] = 1024
    mean_is_label: ClassVar[bool] = False

    def bins(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns the bin of each level, int64 (levels,), and each bin's value, float64 (m,)."""
        return optimal_bins(self.eps, tuple(self.grid(bound).tolist()), self.weights(prior))

    def level(self, values: Tensor, bound: float) -> Tensor:
        """Returns the number of the nearest level of each label, int64 (N,)."""
        return self.place(values, bound).round().long().clamp(0, self.levels - 1)

    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns one of the m values for each label, float64 (N,)."""
        which, centres = self.bins(bound, prior)
        own = which[self.level(values, bound)]
        uniform = uniforms(own.shape, generator)
        m = len(centres)
        if m == 1:
            return centres[own]
        other = integers(1, m, own.shape, generator)
        flip = (m - 1) * math.exp(-self.eps) / (1 + (m - 1) * math.exp(-self.eps))
        return centres[torch.where(uniform < flip, (own + other) % m, own)]

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns the log-probability of each value, float64 (R, V)."""
        which, centres = self.bins(bound, prior)
        own = centres[which[self.level(values, bound)]]
        keep = -math.log1p((len(centres) - 1) * math.exp(-self.eps))
        hit = released[:, None] == own[None, :]
        known = (released[:, None] == centres[None, :]).any(1, keepdim=True)
        densities = two_levels(hit, keep, keep - self.eps)
        return torch.where(known, densities, -math.inf)

    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns all values that are released and all levels."""
        return self.bins(bound, prior)[1], self.grid(bound)

    def summary(self) -> dict[str, object]:
        """Returns the number of levels, and of bins under a uniform prior."""
        return {"levels": self.levels, "bins": len(self.bins(1.0)[1])}


@lru_cache(maxsize=64)
def optimal_bins(
    eps: float, labels: tuple[float, ...], prior: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """Returns the bin of each label and each bin's value, of least expected squared error.

    For m bins the error is the sum over bins of cost(bin) / (e^eps + m - 1), where
    cost = min_v (e^eps - 1) sum_{y in bin} p_y (v - y)^2 + sum_y p_y (v - y)^2, so that the best
    m bins follow from the best m - 1 of every prefix; O(n^2) for each m.
    """
    y, p = np.array(labels), np.array(prior)
    n = len(y)
    if math.isinf(eps):
        return torch.arange(n), torch.tensor(labels, dtype=torch.float64)
    # Divided by e^eps, so that no eps overflows.
    inside, everywhere = -math.expm1(-eps), math.exp(-eps)
    sums = [np.concatenate([[0.0], np.cumsum(p * y**power)]) for power in range(3)]
    mass, first, second = (part[None, :] - part[:, None] for part in sums)  # of [l, r)
    weight = inside * mass + everywhere
    centre = (inside * first + everywhere * sums[1][-1]) / weight
    cost = inside * second + everywhere * sums[2][-1] - centre**2 * weight
    cost[np.tril_indices(n + 1)] = np.inf
    best, tails = cost[0].copy(), [np.zeros(n + 1, dtype=int)]
    least, choice = best[n], 1
    for m in range(2, n + 1):
        total = best[:, None] + cost
        tails.append(total.argmin(0))
        best = total.min(0)
        error = best[n] / (1 + (m - 1) * everywhere)
        if error < least - 1e-15:
            least, choice = error, m
    which, right, values = np.zeros(n, dtype=np.int64), n, []
    for m in range(choice, 0, -1):
        left = int(tails[m - 1][right])
        which[left:right] = m - 1
        values.append(centre[left, right])
        right = left
    return torch.from_numpy(which), torch.tensor(values[::-1], dtype=torch.float64)
