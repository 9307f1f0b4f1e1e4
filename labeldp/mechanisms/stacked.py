"""Several releases of the same labels as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import ClassMechanism
from labeldp.mechanisms.noise import Noise, Prior


@dataclass(frozen=True, eq=False)
class Stacked(ClassMechanism):
    """Releases each label once by every part: eps adds up, and log-likelihoods add.

    The noise of each part is its own, so that outputs are independent given the label. They lie
    side by side, float64 (N, w), which holds labels, bits and float32 reals exactly.

    Attributes:
        parts: the mechanisms; all number the classes alike.
        kinds: type of each part's outputs, and the number of their columns; 0: they are (N,).
    """

    parts: tuple[ClassMechanism, ...]
    kinds: tuple[tuple[torch.dtype, int], ...]

    tight: ClassVar[bool] = False
    outputs_are_classes: ClassVar[bool] = False

    @classmethod
    def of(
        cls, parts: Sequence[ClassMechanism], outputs: Sequence[Tensor]
    ) -> tuple["Stacked", Tensor]:
        """Returns the mechanism, and outputs of its parts side by side."""
        kinds = tuple((each.dtype, each.shape[1] if each.dim() == 2 else 0) for each in outputs)
        return cls(sum(part.eps for part in parts), tuple(parts), kinds), _joined(outputs)

    def by_part(self, released: Tensor) -> list[tuple[ClassMechanism, Tensor]]:
        """Returns each part with its own outputs."""
        columns = released.split([max(1, width) for _, width in self.kinds], 1)
        outputs = [
            (own if width else own.squeeze(1)).to(kind)
            for own, (kind, width) in zip(columns, self.kinds, strict=True)
        ]
        return list(zip(self.parts, outputs, strict=True))

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns the outputs of all parts, float64 (N, w)."""
        return _joined([part.release(labels, num_classes, generator) for part in self.parts])

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the sum of the parts' own, float64 (N, K)."""
        each = [part.log_likelihood(own, num_classes) for part, own in self.by_part(released)]
        return torch.stack(each).sum(0)


def _joined(outputs: Sequence[Tensor]) -> Tensor:
    columns = [each if each.dim() == 2 else each[:, None] for each in outputs]
    return torch.cat([each.to(torch.float64) for each in columns], 1)
