"""Local privacy of features and labels together, for the comparison row of the theory."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.clipping import ClippingMechanism
from labeldp.mechanisms.draws import Noise, numpy_stream, on_grid, step_of
from labeldp.mechanisms.groups import GroupMechanism
from labeldp.mechanisms.sum_laws import group_counts, group_sizes, group_sums, laplace_sums


@dataclass(frozen=True)
class LocalFull(ClippingMechanism, GroupMechanism):
    """Every example releases its indicator over cubes x classes with Laplace noise of scale 2/eps.

    eps-DP under replacement of a whole example, tight: the indicator moves by 2 in L1. Real labels:
    half of eps goes to the indicator over cubes, half to the label in its cube (clipped, moved by
    up to 2 bound in L1): scales 4/eps and 4 bound/eps. Noise is discrete, on whole numbers
    and on a grid of labels (`draws.step_of`). All N examples add noise to every entry, so
    the sums of noise are drawn from their exact law.

    Source: as Berrett, Butucea (2019), arXiv:1912.04629, for classes; the comparison row of Zhao
    et al. (2025), theoretical_limits, table I.
    """

    draws: ClassVar[int] = 3
    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    trust: ClassVar[str] = "local"
    protects: ClassVar[str] = "labels and features"

    @property
    def class_scale(self) -> float:
        """Scale of the noise on an indicator over cubes x classes."""
        return 2 / self.eps

    @property
    def size_scale(self) -> float:
        """Scale of the noise on an indicator over cubes, which goes with a real label."""
        return 4 / self.eps

    def value_scale(self, clip: float) -> float:
        """Returns the scale of the noise on a real label in its cube."""
        return 4 * clip / self.eps

    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns noisy class counts, float64 (G, K), or for real labels noisy means, (G,)."""
        stream, total = numpy_stream(generator), len(labels)
        if not labels.is_floating_point():
            counts = group_counts(labels, int(limit), groups, num_groups)
            return counts + laplace_sums(torch.full_like(counts, total), self.class_scale, stream)
        clip = self.reach(limit)
        step = step_of(clip)
        sizes = group_sizes(groups, num_groups)
        everyone = torch.full_like(sizes, total)
        sums = group_sums(on_grid(labels, clip), groups, num_groups)
        noise = laplace_sums(everyone, self.value_scale(round(clip / step)), stream)
        sums = (sums + noise) * step
        noisy_sizes = sizes + laplace_sums(everyone, self.size_scale, stream)
        # A mean cannot be beyond the clip; a size below half the average is noise.
        return (sums / noisy_sizes.clamp_min(total / num_groups / 2)).clamp(-clip, clip)
