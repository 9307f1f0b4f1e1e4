"""No privacy: the label itself. A mechanism too, so that the baseline needs no special path."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.classes import LabelMechanism
from labeldp.mechanisms.draws import Noise
from labeldp.mechanisms.sum_laws import group_sums
from labeldp.support.validate import InputError, check_integer, check_labels


@dataclass(frozen=True)
class NoPrivacy(LabelMechanism):
    """Releases the true label; eps is infinite and nothing is promised.

    >>> NoPrivacy().eps
    inf
    """

    eps: float = math.inf

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    private: ClassVar[bool] = False
    trust: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isfinite(self.eps):
            raise InputError(
                "mechanism none releases the true label, which costs eps=inf, got "
                f"eps={self.eps:g} (take another mechanism)"
            )

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns a copy of `labels`, int64 (N,) or real float64 (N,)."""
        if labels.dtype == torch.float64:
            return labels.clone()
        return check_labels(labels, num_classes).clone()

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int,
        generator: Noise,
    ) -> Tensor:  # fmt: skip
        """Returns class counts, float64 (G, K), or sums of real labels, float64 (G,)."""
        if labels.dtype == torch.float64:
            return group_sums(labels, groups, num_groups)
        return super().release_groups(labels, num_classes, groups, num_groups, generator)

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the identity, float64 (K, K)."""
        return torch.eye(check_integer("num_classes", num_classes, low=2), dtype=torch.float64)
