"""Noisy label counts of each group; central."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from labeldp_bench.mechanisms.draws import laplace, numpy_stream
from labeldp_bench.mechanisms.groups import GroupMechanism
from labeldp_bench.mechanisms.sum_laws import group_counts
from labeldp_bench.support.validate import check_labels


@dataclass(frozen=True)
class NoisyClusters(GroupMechanism):
    """Releases how often each class occurs in each group, with Laplace noise of scale 2 / eps.

    eps-label-DP, tight: a replaced label moves two counts of its group by 1.

    Source: Tang et al. (2022), NoiseCluster, who add Gaussian noise under (eps, delta); pure noise
    is ours.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    @property
    def scale(self) -> float:
        """Scale of the noise on each count."""
        return 2 / self.eps

    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Generator
    ) -> Tensor:
        """Returns noisy counts, float64 (G, K); some are negative."""
        num_classes = int(limit)
        counts = group_counts(check_labels(labels, num_classes), num_classes, groups, num_groups)
        noise = laplace(counts.shape, numpy_stream(generator))
        return counts + self.scale * noise
