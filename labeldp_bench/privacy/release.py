"""What leaves the vault: outputs of a mechanism, and what can be computed from them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from labeldp_bench.mechanisms.base import Mechanism


@dataclass(frozen=True)
class Release:
    """What left the vault for some examples: all that a learner may know of their labels.

    Attributes:
        indices: int64 (n,), positions in the training set.
        outputs: what the mechanism released, first axis n.
        mechanism: who released it.
        num_classes: K.
        prior: the prior that was used, (K,) or (n, K), or None.
    """

    indices: Tensor
    outputs: Tensor
    mechanism: Mechanism
    num_classes: int
    prior: Tensor | None = None

    def take(self, kept: Tensor) -> "Release":
        """Returns the release of the examples where `kept`, bool (n,), holds."""
        per_example = self.prior is not None and self.prior.dim() == 2
        prior = self.prior[kept] if self.prior is not None and per_example else self.prior
        return Release(
            self.indices[kept], self.outputs[kept], self.mechanism, self.num_classes, prior
        )

    @cached_property
    def log_likelihood(self) -> Tensor:
        """Exact log P(output | true label = c), float64 (n, K)."""
        return self.mechanism.log_likelihood(self.outputs, self.num_classes, self.prior)

    @cached_property
    def evidence(self) -> Tensor:
        """The log-likelihood less the largest of its row, float32 (n, K)."""
        return self.mechanism.evidence(self.outputs, self.num_classes, self.prior)

    @cached_property
    def plausible(self) -> Tensor:
        """Which classes explain the output best, bool (n, K): the argmax set of the likelihood."""
        if "evidence" in vars(self):  # paid for already
            return torch.from_numpy(self.evidence.numpy() == 0)  # torch's takes ten times as long
        return self.mechanism.plausible(self.outputs, self.num_classes, self.prior)
