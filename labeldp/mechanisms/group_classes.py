"""What a curator releases about the classes in each group: one class, or noisy counts."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.draws import Noise, discrete_laplace, numpy_stream, uniforms
from labeldp.mechanisms.groups import GroupMechanism
from labeldp.mechanisms.sum_laws import group_counts
from labeldp.support.validate import check_choice


@dataclass(frozen=True)
class ExponentialCubes(GroupMechanism):
    """Draws a class for each cube with P(j) proportional to exp(weight n_j), n_j its count there.

    With weight eps/2 eps-label-DP: a replaced label moves one count down and another up. The
    worst log ratio approaches eps as the number of labels grows.

    Source: Zhao et al. (2025), theoretical_limits, equation 19; McSherry, Talwar (2007).
    """

    @property
    def weight(self) -> float:
        """What one label adds to the log-probability of its class."""
        return self.eps / 2

    def log_probabilities(self, counts: Tensor) -> Tensor:
        """Returns the log-probability of each class, float64 (G, K), from counts (G, K)."""
        return (self.weight * counts.to(torch.float64)).log_softmax(1)

    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns one class for each cube, int64 (G,); uniform where a cube is empty."""
        counts = group_counts(labels, int(limit), groups, num_groups)
        uniform = uniforms(counts.shape, generator)
        if math.isinf(self.eps):  # the most frequent class; less than half a count breaks ties
            return (counts + uniform / 2).argmax(1)
        # The largest score plus Gumbel noise is a draw from the softmax of the scores.
        gumbel = -(-torch.log1p(-uniform)).clamp_min(1e-300).log()
        return (self.weight * counts + gumbel).argmax(1)


@dataclass(frozen=True)
class FullExponentialCubes(ExponentialCubes):
    """The exponential mechanism in each cube where features are secret too.

    eps-DP under replacement of a whole example. A moved example takes a count from one cube and
    adds one to another, and each costs no more than its weight. So the paper's weight eps/4 spends
    eps/2 alone, and eps/2 suffices (docs/theory.md): equation 19 is eps-DP as it stands.

    Source: Zhao et al. (2025), theoretical_limits, equation 33.

    Args:
        constant: `paper` (weight eps/4, in truth eps/2-DP) or `tight` (weight eps/2).
    """

    constant: str = "paper"

    protects: ClassVar[str] = "labels and features"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism.constant", self.constant, ("paper", "tight"))

    @property
    def weight(self) -> float:
        """What one label adds to the log-probability of its class."""
        return self.eps / 4 if self.constant == "paper" else self.eps / 2


@dataclass(frozen=True)
class NoisyClusters(GroupMechanism):
    """Releases how often each class occurs in each group, plus whole numbers of noise.

    The noise is discrete Laplace of scale 2 / eps. eps-label-DP, tight: a replaced label moves two
    counts of its group by 1.

    Source: Tang et al. (2022), NoiseCluster, who add Gaussian noise under (eps, delta); pure noise
    is ours.
    """

    draws: ClassVar[int] = 3

    @property
    def scale(self) -> float:
        """Scale of the noise on each count."""
        return 2 / self.eps

    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns noisy counts, whole numbers, float64 (G, K); some are negative."""
        counts = group_counts(labels, int(limit), groups, num_groups)
        noise = discrete_laplace(counts.shape, self.scale, numpy_stream(generator))
        return (counts + torch.from_numpy(noise)).to(torch.float64)
