"""Mechanisms that release something about groups of labels, never about a single one."""

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from labeldp.mechanisms.base import Mechanism
from labeldp.mechanisms.draws import Noise


class GroupMechanism(Mechanism[float]):
    """Releases one answer for each group of labels; groups come from features and are disjoint.

    eps-DP if one example is replaced: its label alone (`protects` is "labels"), so that only one
    group changes, or its features too ("labels and features"), so that two groups may change.
    The number of groups is fixed in advance.
    """

    trust: ClassVar[str] = "central"

    @abstractmethod
    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns one class, int64 (G,), one mean, float64 (G,), or sums for each group."""

    def summary(self) -> dict[str, object]:
        """Returns what is protected, for the record."""
        return {"protects": self.protects}
