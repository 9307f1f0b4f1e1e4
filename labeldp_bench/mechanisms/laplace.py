"""Laplace noise on a bounded real label."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from labeldp_bench.mechanisms.draws import laplace, numpy_stream
from labeldp_bench.mechanisms.real import RealMechanism
from labeldp_bench.mechanisms.sum_laws import group_sizes, group_sums, laplace_sums
from labeldp_bench.support.validate import InputError


@dataclass(frozen=True)
class Laplace(RealMechanism):
    """Adds Laplace noise of scale 2 bound / eps to the label.

    eps-label-DP under label replacement, tight: two labels are at most 2 bound apart, and the
    ratio e^eps is reached by the outermost ones wherever the output is beyond both.

    Source: Zhao et al. (2025), theoretical_limits, section V-A (its T is our bound).

    >>> Laplace(eps=0.5).scale(1.0)
    4.0
    """

    def scale(self, bound: float) -> float:
        """Returns the scale b of the noise; its standard deviation is sqrt(2) b."""
        if math.isinf(bound):
            raise InputError(
                "mechanism=laplace needs bounded labels, and these have no bound "
                "(use mechanism=clipped_laplace)"
            )
        return 2 * bound / self.eps

    def release(
        self, values: Tensor, bound: float, generator: Generator, prior: Tensor | None = None
    ) -> Tensor:
        """Returns the label plus noise, float64 (N,)."""
        scale = self.scale(bound)
        noise = laplace(values.shape, numpy_stream(generator))
        return values + scale * noise

    def release_groups(
        self, values: Tensor, bound: float, groups: Tensor, num_groups: int, generator: Generator
    ) -> Tensor:
        """Returns sums of releases, float64 (G,), drawn from their exact law."""
        scale, sizes = self.scale(bound), group_sizes(groups, num_groups)
        noise = laplace_sums(sizes, scale, numpy_stream(generator))
        return group_sums(values, groups, num_groups) + noise

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Tensor | None = None
    ) -> Tensor:
        """Returns -|z - y| / b - log 2b, float64 (R, V); at eps=inf 0 or -inf."""
        distance = (released[:, None] - values[None, :]).abs()
        scale = self.scale(bound)
        if scale == 0:
            return torch.where(distance == 0, 0.0, -math.inf).to(torch.float64)
        return -distance / scale - math.log(2 * scale)

    def breakpoints(self, bound: float, prior: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the ends of the range: |z - y| - |z - y'| is extreme where z is at an end."""
        self.scale(bound)
        ends = torch.tensor([-bound, 0.0, bound], dtype=torch.float64)
        return ends, ends

    def summary(self) -> dict[str, Any]:
        """Returns the scale of the noise per unit of the bound."""
        return {"scale_per_bound": 2 / self.eps}
