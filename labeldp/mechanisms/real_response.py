"""Mechanisms for real labels that release a number of a finite set."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy
import torch
from torch import Tensor

from labeldp.mechanisms.base import GridMechanism, draw_columns, exact_match, two_levels
from labeldp.mechanisms.noise import Noise, Prior, integers, uniforms
from labeldp.support.validate import InputError, check_integer


@dataclass(frozen=True)
class RROnBins(GridMechanism):
    """Maps the label to one of m values and applies randomised response to these.

    eps-label-DP under label replacement, tight for m >= 2. m, the bins and their values minimise
    the expected squared error of the release under a prior, by an exact dynamic programme over
    `levels` equally spaced labels. The release is biased.

    Source: Ghazi et al. (2023), "Regression with label differential privacy", arXiv:2212.06074,
    algorithm 2; the programme is our derivation (docs/theory.md).

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


SLACK = 1e-6
"""The programme is solved for eps less this, so that its rounding stays within eps; `check_eps`
keeps eps ten times as large."""
REACH = 2.0
"""Outputs lie within this many times those of two-point randomised response, the smallest that the
means allow; no solution needs more than 1.6 times (test_real_mechanisms.py)."""


@dataclass(frozen=True)
class UnbiasedRandomizer(GridMechanism):
    """Releases a value whose mean is the label, with the least expected squared error.

    eps-label-DP under label replacement (within 1e-5 of tight). A label between two levels is
    first rounded to one of them at random, which keeps the mean. The outputs reach beyond the
    labels: two-point randomised response with the right means needs bound (e^eps + 1)/(e^eps - 1),
    and every other channel more.

    Source: Badanidiyuru et al. (2023), "Optimal unbiased randomizers for regression with label
    differential privacy", arXiv:2312.05659.

    Args:
        eps: in [1e-5, 20], or infinite.
        levels: labels of the programme, >= 2.
        outputs: values that may be released, evenly spaced, >= 2.
    """

    levels: int = 17
    outputs: int = 129

    most_levels: ClassVar[int] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("mechanism.outputs", self.outputs, low=2, high=512)
        if 20 < self.eps < math.inf:
            raise InputError(
                f"eps of unbiased_randomizer must be at most 20 or inf, got {self.eps:g}"
            )

    def channel(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns P(output | level), float64 (levels, V), and the outputs, float64 (V,)."""
        self.grid(bound)  # refuses labels without a bound
        matrix, outputs = solve(self.eps, self.levels, self.outputs, self.weights(prior))
        return matrix, outputs * bound

    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns one of the outputs for each label, float64 (N,)."""
        if math.isinf(self.eps):
            return values.clone()
        matrix, outputs = self.channel(bound, prior)
        place = self.place(values, bound)
        below = place.floor().clamp(0, self.levels - 2)
        up = uniforms(values.shape, generator) < place - below
        return outputs[draw_columns(matrix, (below + up).long(), generator)]

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns the log-probability of each output, float64 (R, V)."""
        if math.isinf(self.eps):
            return exact_match(released, values)
        matrix, outputs = self.channel(bound, prior)
        place = self.place(values, bound)
        below = place.floor().clamp(0, self.levels - 2).long()
        share = (place - below)[:, None]
        mixed = (1 - share) * matrix[below] + share * matrix[below + 1]
        number = (released[:, None] - outputs[None, :]).abs().argmin(1)
        found = mixed.T[number].log()
        return torch.where((outputs[number] == released)[:, None], found, -math.inf)

    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns all outputs and all levels: between levels the channel is a mixture of two."""
        return self.channel(bound, prior)[1], self.grid(bound)

    def summary(self) -> dict[str, object]:
        """Returns the size of the programme."""
        return {"levels": self.levels, "outputs": self.outputs}


@lru_cache(maxsize=32)
def solve(
    eps: float, levels: int, num_outputs: int, prior: tuple[float, ...]
) -> tuple[Tensor, Tensor]:
    """Returns the channel (levels, V) and its outputs (V,) for labels in [-1, 1].

    Variables: M (levels x outputs) and a floor t for each output, with t <= M <= e^eps t.
    """
    y = np.linspace(-1, 1, levels)
    reach = REACH / math.tanh((eps - SLACK) / 2)
    v = np.linspace(-reach, reach, num_outputs)
    ratio, size = math.exp(eps - SLACK), levels * num_outputs
    cost = np.concatenate(
        [(np.array(prior)[:, None] * (v[None, :] - y[:, None]) ** 2).ravel(), np.zeros(num_outputs)]
    )
    entry = np.arange(size)
    output = entry % num_outputs
    ones = np.ones(size)
    upper = scipy.sparse.coo_matrix(
        (
            np.concatenate([ones, -ratio * ones, -ones, ones]),
            (
                np.concatenate([entry, entry, size + entry, size + entry]),
                np.concatenate([entry, size + output, entry, size + output]),
            ),
        )
    )
    row = entry // num_outputs
    equal = scipy.sparse.coo_matrix(
        (
            np.concatenate([ones, v[output]]),
            (np.concatenate([row, levels + row]), np.concatenate([entry, entry])),
        ),
        shape=(2 * levels, size + num_outputs),
    )
    sums = np.concatenate([np.ones(levels), y])
    limits = dict(A_ub=upper, b_ub=np.zeros(2 * size), A_eq=equal, b_eq=sums)
    found: Any = scipy.optimize.linprog(cost, **limits, method="highs")  # type: ignore[call-overload]
    if not found.success:
        raise InputError(
            f"the programme of unbiased_randomizer has no solution at eps={eps:g} "
            "(more mechanism.outputs)"
        )
    matrix = found.x[:size].reshape(levels, num_outputs)
    used = matrix.max(0) > 1e-8
    matrix = matrix[:, used].clip(matrix[:, used].max(0) / ratio, None)
    matrix /= matrix.sum(1, keepdims=True)
    return torch.from_numpy(matrix), torch.from_numpy(v[used])
