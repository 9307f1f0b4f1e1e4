"""Laplace noise on a clipped real label, for labels without a bound."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Generator, Tensor

from labeldp_bench.mechanisms.clipping import check_clip, clip_or_bound
from labeldp_bench.mechanisms.laplace import Laplace


@dataclass(frozen=True)
class ClippedLaplace(Laplace):
    """Clips the label to [-clip, clip], then adds Laplace noise of scale 2 clip / eps.

    eps-label-DP under label replacement, tight. Clipping makes the release biased.

    Source: Zhao et al. (2025), theoretical_limits, section VI-A and Theorem 10.

    Args:
        eps: > 0.
        clip: > 0, T in the paper; None where the learner is to choose it by the theorem's rule.

    >>> ClippedLaplace(eps=1.0, clip=3.0).scale(float("inf"))
    6.0
    """

    clip: float | None = None

    mean_is_label: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_clip(self.clip)

    def scale(self, bound: float) -> float:
        """Returns the scale of the noise."""
        return 2 * clip_or_bound(self.clip, bound) / self.eps

    def release(
        self, values: Tensor, bound: float, generator: Generator, prior: Tensor | None = None
    ) -> Tensor:
        """Returns the clipped label plus noise, float64 (N,)."""
        clip = clip_or_bound(self.clip, bound)
        return super().release(values.clamp(-clip, clip), bound, generator)

    def release_groups(
        self, values: Tensor, bound: float, groups: Tensor, num_groups: int, generator: Generator
    ) -> Tensor:
        """Returns sums of releases, float64 (G,), drawn from their exact law."""
        clip = clip_or_bound(self.clip, bound)
        clipped = values.clamp(-clip, clip)
        return super().release_groups(clipped, bound, groups, num_groups, generator)

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Tensor | None = None
    ) -> Tensor:
        """Returns the Laplace log-density around the clipped label, float64 (R, V)."""
        clip = clip_or_bound(self.clip, bound)
        return super().log_density(released, values.clamp(-clip, clip), bound)

    def breakpoints(self, bound: float, prior: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the ends of the clipped range."""
        return super().breakpoints(clip_or_bound(self.clip, bound))

    def summary(self) -> dict[str, Any]:
        """Returns the clip and the scale of the noise."""
        if self.clip is None:
            return {}
        return {"clip": self.clip, "scale": 2 * self.clip / self.eps}
