"""Cross entropy on the released label."""

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.losses.base import Loss, refusal
from labeldp.store.release import Release


class PlainCrossEntropy(Loss):
    """Softmax cross entropy on the released label, as if it were true."""

    name = "plain"

    def targets(self, release: Release) -> Tensor:
        """Returns the released labels, int64 (n,)."""
        if release.outputs.dim() != 1:
            raise refusal(self.name, release, "one label per example")
        return release.outputs

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -log softmax(logits) at the released label."""
        return functional.cross_entropy(logits, targets, reduction="none")

    def votes(self, targets: Tensor, num_classes: int) -> Tensor:
        """Returns one vote for the released label."""
        # functional.one_hot makes int64 of eight bytes for each bit first.
        return torch.zeros((len(targets), num_classes)).scatter_(1, targets[:, None], 1)
