"""What disjoint groups of examples make of any example: the answer of its own group."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from labeldp_bench.supervision.prediction import vote_shares


@dataclass(frozen=True)
class GroupEstimator:
    """Class sums or means, one for each group.

    Attributes:
        locate: features (m, ...) to the group of each example, int64 (m,) in [0, G).
        outputs: float64 (G, K) or (G,).
    """

    locate: Callable[[Tensor], Tensor]
    outputs: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns one score per class, float64 (m, K)."""
        return self.outputs[self.locate(features)]

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns vote shares to the power 1 / temperature, float64 (m, K), rows sum to 1."""
        return vote_shares(self.scores(features), temperature)

    def values(self, features: Tensor) -> Tensor:
        """Returns the mean of each example's group, float64 (m,)."""
        return self.scores(features)
