"""The noisy mean of the labels in each cube; central."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.clipping import ClippingMechanism
from labeldp.mechanisms.draws import Noise, discrete_laplace, numpy_stream, on_grid, step_of
from labeldp.mechanisms.groups import GroupMechanism
from labeldp.mechanisms.sum_laws import group_sizes, group_sums, laplace_sums
from labeldp.support.validate import InputError, check_number


@dataclass(frozen=True)
class CubeMeans(GroupMechanism):
    """Releases each cube's mean label with discrete Laplace noise of scale 2 bound / (n eps).

    eps-label-DP, tight: a replaced label moves the mean of n by up to 2 bound / n, and n is public
    as features are. 0 where a cube is empty. Labels are rounded to a grid (`draws.step_of`), their
    sum has noise in whole steps, and is divided afterwards.

    Source: Zhao et al. (2025), theoretical_limits, equation 25.
    """

    draws: ClassVar[int] = 3
    tasks: ClassVar[tuple[str, ...]] = ("regression",)

    def reach(self, bound: float) -> float:
        """Returns the largest size of a label that is averaged."""
        if math.isinf(bound):
            raise InputError(
                "cube means need bounded labels, and these have no bound "
                "(use mechanism=clipped_cube_means)"
            )
        return bound

    def divisors(self, sizes: Tensor) -> Tensor:
        """Returns what sums are divided by, float64 (G,), at least 1."""
        return sizes.to(torch.float64).clamp_min(1)

    def scales(self, sizes: Tensor, bound: float) -> Tensor:
        """Returns the scale of each cube's noise, float64 (G,); 0 for an empty cube."""
        reach = self.reach(bound)
        step = step_of(reach)
        scale = 2 * round(reach / step) * step / (self.divisors(sizes) * self.eps)
        return torch.where(sizes > 0, scale, 0.0)

    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns one mean for each cube, float64 (G,)."""
        reach, sizes = self.reach(limit), group_sizes(groups, num_groups)
        if math.isinf(self.eps):
            sums = group_sums(labels.clamp(-reach, reach), groups, num_groups)
            return sums / self.divisors(sizes)
        step, stream = step_of(reach), numpy_stream(generator)
        noise = laplace_sums((sizes > 0).long(), 2 * round(reach / step) / self.eps, stream)
        sums = group_sums(on_grid(labels, reach), groups, num_groups)
        return (sums + noise) * step / self.divisors(sizes)


@dataclass(frozen=True)
class ClippedCubeMeans(ClippingMechanism, CubeMeans):
    """The same for labels without a bound, which are clipped to [-clip, clip] first.

    Source: Zhao et al. (2025), theoretical_limits, equation 30 and Theorem 12.
    """


@dataclass(frozen=True)
class FullCubeMeans(CubeMeans):
    """Cube means where features are secret too.

    eps-DP under replacement of a whole example. n is secret here, so each sum is divided by
    max(n, n_0), with n_0 half of what a cube holds at the lowest density. A moved example changes
    two cubes by up to 2 bound / n_0 each: noise of scale 4 bound / (n_0 eps). Means are rounded to
    a grid before whole steps of noise are added; two steps more of scale, a millionth, pay for the
    rounding.

    Source: Zhao et al. (2025), theoretical_limits, equation 35.

    Args:
        density: lower bound of the density of the features, public; 1 for uniform ones.
    """

    density: float = 1.0

    protects: ClassVar[str] = "labels and features"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.density", self.density, above=0)

    def floor(self, sizes: Tensor) -> float:
        """Returns n_0."""
        return self.density * float(sizes.sum()) / len(sizes) / 2

    def step(self, sizes: Tensor, bound: float) -> float:
        """Returns the step of the grid of means."""
        return step_of(4 * self.reach(bound) / self.floor(sizes)) / 1024

    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns one mean for each cube, float64 (G,)."""
        reach, sizes = self.reach(limit), group_sizes(groups, num_groups)
        sums = group_sums(labels.clamp(-reach, reach), groups, num_groups)
        means = sums / self.divisors(sizes)
        if math.isinf(self.eps):
            return means
        step, scale = self.step(sizes, limit), float(self.scales(sizes, limit)[0])
        noise = discrete_laplace((num_groups,), scale / step, numpy_stream(generator))
        return ((means / step).round() + torch.from_numpy(noise)) * step

    def divisors(self, sizes: Tensor) -> Tensor:
        """Returns max(n, n_0), float64 (G,)."""
        return sizes.to(torch.float64).clamp_min(self.floor(sizes))

    def scales(self, sizes: Tensor, bound: float) -> Tensor:
        """Returns the same scale for every cube, float64 (G,)."""
        moved = 4 * self.reach(bound) / self.floor(sizes)
        scale = (moved + 2 * self.step(sizes, bound)) / self.eps
        return torch.full(sizes.shape, scale, dtype=torch.float64)


@dataclass(frozen=True)
class FullClippedCubeMeans(FullCubeMeans, ClippedCubeMeans):
    """`FullCubeMeans` of clipped labels.

    Source: Zhao et al. (2025), theoretical_limits, equations 36 to 38.
    """
