"""Models that cut all examples into disjoint groups: every group has one class or one mean."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.supervision import Supervision, VoteClassifier
from labeldp_bench.interfaces import Model, Session


@dataclass(frozen=True)
class GroupEstimator(VoteClassifier):
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

    def values(self, features: Tensor) -> Tensor:
        """Returns the mean of each example's group, float64 (m,)."""
        return self.scores(features)


@dataclass(frozen=True)
class Groups:
    """The training examples in disjoint groups.

    Attributes:
        members: the group of each training example, int64 (N,) in [0, count).
        count: G.
        locate: features (m, ...) to the group of each example, int64 (m,).
    """

    members: Tensor
    count: int
    locate: Callable[[Tensor], Tensor]

    def estimator(self, outputs: Tensor) -> GroupEstimator:
        """Returns the estimator that has one output per group, (G,) or (G, K)."""
        return GroupEstimator(self.locate, outputs)


class GroupModel(Model):
    """Adds up what the examples of a group released, or answers about groups (`Averages`)."""

    shares_work: ClassVar[bool] = True
    disjoint: ClassVar[bool] = True

    @abstractmethod
    def grouping(self, features: Tensor, session: Session) -> Groups:
        """Returns the training examples in groups."""

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> GroupEstimator:
        """Returns the classifier that adds up the votes in each group."""
        groups = self.grouping(features, session)
        votes = supervision.votes().to(torch.float64)
        sums = torch.zeros((groups.count, votes.shape[1]), dtype=torch.float64)
        sums.index_add_(0, groups.members[supervision.indices], votes)
        return groups.estimator(sums)
