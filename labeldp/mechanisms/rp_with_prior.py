"""A band around a real label, inside an interval that a prior chooses."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.classes import two_levels
from labeldp.mechanisms.draws import Noise, check_noise, uniforms
from labeldp.mechanisms.real import GridMechanism, exact_match
from labeldp.support.validate import check_number


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
