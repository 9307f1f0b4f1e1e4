"""Laplace noise on a real label, bounded or clipped."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.clipping import ClippingMechanism
from labeldp.mechanisms.draws import (
    Noise,
    discrete_laplace,
    numpy_stream,
    on_grid,
    step_of,
)
from labeldp.mechanisms.real import RealMechanism, exact_match
from labeldp.mechanisms.sum_laws import group_sizes, group_sums, laplace_sums
from labeldp.support.validate import InputError


@dataclass(frozen=True)
class Laplace(RealMechanism):
    """Adds discrete Laplace noise of scale 2 bound / eps to the label, on a grid.

    eps-label-DP under label replacement, tight: two labels are at most 2 bound apart, and the
    ratio e^eps is reached by the outermost ones wherever the output is beyond both. Labels are
    rounded to a grid of some 2,000 to 4,000 steps (`draws.step_of`), and so is the bound that the
    scale is made of: eps is that of what is released, rounding included.

    Source: Zhao et al. (2025), theoretical_limits, section V-A (its T is our bound).

    >>> Laplace(eps=0.5).scale(1.0)
    4.0
    """

    draws: ClassVar[int] = 3

    def reach(self, bound: float) -> float:
        """Returns the largest size of a label that noise is added to."""
        if math.isinf(bound):
            raise InputError(
                "mechanism=laplace needs bounded labels, and these have no bound "
                "(use mechanism=clipped_laplace)"
            )
        return bound

    def scale(self, bound: float) -> float:
        """Returns the scale b of the noise; its standard deviation is sqrt(2) b."""
        reach = self.reach(bound)
        step = step_of(reach)
        return 2 * round(reach / step) * step / self.eps

    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns the label, clipped to what is reached, plus noise, float64 (N,).

        Multiples of the grid's step; at eps=inf the label as it is.
        """
        reach, scale = self.reach(bound), self.scale(bound)
        if scale == 0:
            return values.clamp(-reach, reach)
        step = step_of(reach)
        noise = discrete_laplace(values.shape, scale / step, numpy_stream(generator))
        return (on_grid(values, reach) + torch.from_numpy(noise)) * step

    def release_groups(
        self, values: Tensor, bound: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns sums of releases, float64 (G,), drawn from their exact law."""
        reach, scale = self.reach(bound), self.scale(bound)
        if scale == 0:
            return group_sums(values.clamp(-reach, reach), groups, num_groups)
        step, sizes = step_of(reach), group_sizes(groups, num_groups)
        noise = laplace_sums(sizes, scale / step, numpy_stream(generator))
        return (group_sums(on_grid(values, reach), groups, num_groups) + noise) * step

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns -|z - y| / b - log 2b, float64 (R, V), of labels on the grid.

        On the grid the differences between labels are exact, which is all that eps and a likelihood
        need; the level is that of the density. At eps=inf 0 or -inf.
        """
        reach, scale = self.reach(bound), self.scale(bound)
        if scale == 0:
            return exact_match(released, values.clamp(-reach, reach))
        values = on_grid(values, reach) * step_of(reach)
        return -(released[:, None] - values[None, :]).abs() / scale - math.log(2 * scale)

    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns the ends of the range: |z - y| - |z - y'| is extreme where z is at an end."""
        reach = self.reach(bound)
        ends = torch.tensor([-reach, 0.0, reach], dtype=torch.float64)
        return ends, ends

    def summary(self) -> dict[str, object]:
        """Returns the scale of the noise per unit of the bound."""
        return {"scale_per_bound": 2 / self.eps}


@dataclass(frozen=True)
class ClippedLaplace(ClippingMechanism, Laplace):
    """Clips the label to [-clip, clip], then adds Laplace noise of scale 2 clip / eps.

    eps-label-DP under label replacement, tight. Clipping makes the release biased.

    Source: Zhao et al. (2025), theoretical_limits, section VI-A and Theorem 10; clip is its T.

    >>> ClippedLaplace(eps=1.0, clip=3.0).scale(float("inf"))
    6.0
    """

    mean_is_label: ClassVar[bool] = False

    def summary(self) -> dict[str, object]:
        """Returns the clip and the scale of the noise."""
        if self.clip is None:
            return {}
        return {"clip": self.clip, "scale": 2 * self.clip / self.eps}
