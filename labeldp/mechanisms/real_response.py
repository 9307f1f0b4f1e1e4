"""Mechanisms for real labels whose release rests on a grid of labels: bins, programmes, bands."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import scipy
import torch
from torch import Tensor

from labeldp.mechanisms.base import RealMechanism, exact_match, two_levels
from labeldp.mechanisms.noise import Noise, Prior, check_noise, draw_columns, integers, uniforms
from labeldp.support.validate import InputError, check_integer, check_number, check_prior


class GridMechanism(RealMechanism):
    """A mechanism whose release rests on `levels` equally spaced labels in [-bound, bound]."""

    levels: int
    most_levels: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("mechanism.levels", self.levels, low=2, high=self.most_levels)

    def grid(self, bound: float) -> Tensor:
        """Returns the levels, float64 (levels,).

        Raises:
            InputError: an infinite bound.
        """
        if math.isinf(bound):
            raise InputError(
                f"{type(self).__name__} needs bounded labels, and these have no bound "
                "(use mechanism=clipped_laplace)"
            )
        return torch.linspace(-bound, bound, self.levels, dtype=torch.float64)

    def place(self, values: Tensor, bound: float) -> Tensor:
        """Returns where labels lie between the first level, 0, and the last, float64 (N,)."""
        return (values / bound + 1) / 2 * (self.levels - 1)

    def weights(self, prior: Prior) -> tuple[float, ...]:
        """Returns the prior of each level; None is the uniform one."""
        if prior is not None and torch.as_tensor(prior).dim() != 1:
            raise InputError("a prior over levels must be global, of shape (levels,)")
        return tuple(check_prior(prior, 1, self.levels).tolist())


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

    known_as = ("rr_on_bins",)

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

    known_as = ("unbiased_randomizer",)

    levels: int = 17
    outputs: int = 129

    most_levels: ClassVar[int] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("mechanism.outputs", self.outputs, low=2, high=512)
        if 20 < self.eps < math.inf:
            raise InputError(
                f"eps of unbiased_randomizer must be at most 20 or inf, got {self.eps:g} (take a "
                "smaller eps)"
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


@dataclass(frozen=True)
class RPWithPrior(GridMechanism):
    """Draws from a band of radius r around the label, or with a lower density elsewhere.

    For a label in the interval [a, b]: density 1/g within r of it and e^-eps/g in the rest of
    [a - r, b + r], g = 2 r + e^-eps (b - a); for any other label uniform on [a - r, b + r].
    eps-label-DP under label replacement, tight; a, b and r minimise the expected squared error of
    the release under a prior over `levels` equally spaced labels. The release is biased. The
    interval must hold a share `mass` of the prior (ours): under a uniform prior and eps <= 2 the
    least error is that of a single point, which is released whatever the label is.

    Source: Liu, Huang (2026), as restated in Liu, Ding (2026), BlockRR.

    Args:
        levels: of the prior and of the search for a, b and r, >= 2.
        mass: what [a, b] must hold of the prior, in [0, 1].
    """

    known_as = ("rp_with_prior",)

    levels: int = 33
    mass: float = 0.9

    most_levels: ClassVar[int] = 129
    mean_is_label: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.mass", self.mass, low=0, high=1)

    def shape(self, bound: float, prior: Prior = None) -> tuple[float, float, float]:
        """Returns a, b and r."""
        self.grid(bound)  # refuses labels without a bound
        low, high, radius = optimal_shape(self.eps, self.mass, self.weights(prior))
        return low * bound, high * bound, radius * bound

    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns a real for each label, float64 (N,), in [a - r, b + r]."""
        if math.isinf(self.eps):
            return values.clone()
        low, high, radius = self.shape(bound, prior)
        share = 2 * radius / (2 * radius + math.exp(-self.eps) * (high - low))
        check_noise("rp_with_prior", self.eps, share)
        uniform = uniforms((2, len(values)), generator)
        near = values + radius * (2 * uniform[1] - 1)
        # A place on [a - r, b + r] without the band, which is stepped over.
        far = low - radius + uniform[1] * (high - low)
        far = torch.where(far >= values - radius, far + 2 * radius, far)
        anywhere = low - radius + uniform[1] * (high - low + 2 * radius)
        inside = (values >= low) & (values <= high)
        return torch.where(inside, torch.where(uniform[0] < share, near, far), anywhere)

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns the log-density, float64 (R, V); -inf outside [a - r, b + r]."""
        if math.isinf(self.eps):
            return exact_match(released, values)
        z, y = released[:, None], values[None, :]
        low, high, radius = self.shape(bound, prior)
        log_g = math.log(2 * radius + math.exp(-self.eps) * (high - low))
        in_band = two_levels((z - y).abs() <= radius, -log_g, -self.eps - log_g)
        flat = -math.log(2 * radius + high - low)
        density = torch.where((y >= low) & (y <= high), in_band, in_band.new_tensor(flat))
        return torch.where((z < low - radius) | (z > high + radius), -math.inf, density)

    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns both ends, the middle, and labels inside and outside of the interval.

        The density has three values, so that any output in one label's band and outside another's
        attains the worst ratio.
        """
        low, high, radius = self.shape(bound, prior)
        ends = [low - radius, low, (low + high) / 2, high, high + radius]
        labels = [-bound, low, (low + high) / 2, high, bound]
        return torch.tensor(ends, dtype=torch.float64), torch.tensor(labels, dtype=torch.float64)

    def summary(self) -> dict[str, object]:
        """Returns a, b and r for labels in [-1, 1] and a uniform prior."""
        if math.isinf(self.eps):
            return {}
        low, high, radius = self.shape(1.0)
        return {"low": low, "high": high, "radius": radius}


@lru_cache(maxsize=64)
def optimal_shape(eps: float, mass: float, prior: tuple[float, ...]) -> tuple[float, float, float]:
    """Returns a, b and r of least expected squared error, by search over levels and 40 radii."""
    if math.isinf(eps):
        return -1.0, 1.0, 0.0
    y, p = np.linspace(-1, 1, len(prior)), np.array(prior)
    radii = np.geomspace(1e-3, 2, 40)[:, None]
    best, chosen = math.inf, (-1.0, 1.0, 1.0)
    for first, low in enumerate(y):
        for high in y[first:]:
            if p[(y >= low) & (y <= high)].sum() < mass - 1e-12:
                continue
            whole = ((high + radii - y) ** 3 - (low - radii - y) ** 3) / 3  # of (z - y)^2
            band = 2 * radii**3 / 3
            g = 2 * radii + math.exp(-eps) * (high - low)
            inside = (band + math.exp(-eps) * (whole - band)) / g
            outside = whole / (2 * radii + high - low)
            error = np.where((y >= low) & (y <= high), inside, outside) @ p
            if error.min() < best:
                best = float(error.min())
                chosen = (float(low), float(high), float(radii[error.argmin(), 0]))
    return chosen
