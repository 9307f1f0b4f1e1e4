"""A sigmoid for each class."""

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.losses.base import Loss, refusal
from labeldp.store.release import Release


class BinaryCrossEntropy(Loss):
    """One sigmoid per class against the released bits (a released label counts as one-hot).

    Source: Zhao et al. (2025), section 4; softmax does not fit, the bits do not sum to 1.
    """

    name = "bce"

    def targets(self, release: Release) -> Tensor:
        """Returns the released bits, float32 (n, K)."""
        if release.outputs.is_floating_point():
            raise refusal(self.name, release, "bits or labels")
        if release.outputs.dim() == 1:
            return functional.one_hot(release.outputs, release.num_classes).to(torch.float32)
        return release.outputs.to(torch.float32)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the sum over classes of the binary cross entropies."""
        pairs = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return pairs.sum(-1)
