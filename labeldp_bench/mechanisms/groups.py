"""The contract of mechanisms that release something about groups of labels, never about one."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Generator, Tensor

from labeldp_bench.support.validate import check_eps


@dataclass(frozen=True)
class GroupMechanism(ABC):
    """Releases one answer for each group of labels; groups come from features and are disjoint.

    eps-DP if one example is replaced: its label alone (`protects` is "labels"), so that only one
    group changes, or its features too ("labels and features"), so that two groups may change.
    The number of groups is fixed in advance.
    """

    eps: float

    tasks: ClassVar[tuple[str, ...]]
    private: ClassVar[bool] = True
    trust: ClassVar[str] = "central"
    delta: ClassVar[float] = 0.0
    protects: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", check_eps(self.eps))

    @abstractmethod
    def release_groups(
        self, labels: Tensor, limit: float, groups: Tensor, num_groups: int, generator: Generator
    ) -> Tensor:
        """Returns one class, int64 (G,), one mean, float64 (G,), or sums for each group.

        Args:
            labels: int64 classes (N,) or float64 real labels (N,).
            limit: the number of classes, or the bound of real labels.
            groups: int64 (N,), the group of each label, in [0, G).
            num_groups: G.
            generator: CPU generator of the privacy stream.
        """

    def summary(self) -> dict[str, Any]:
        """Returns what is protected, for the record."""
        return {"protects": self.protects}
