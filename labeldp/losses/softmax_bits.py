"""Softmax against released bits."""

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.losses.base import Loss, refusal
from labeldp.store.release import Release


class SoftmaxOnBits(Loss):
    """Softmax cross entropy against the released bits, scaled to sum 1.

    Zhao et al. (2025), section 4, say that softmax does not fit bits; this loss is here to
    measure it.
    """

    name = "softmax_bits"

    def targets(self, release: Release) -> Tensor:
        """Returns the bits divided by their number, float32 (n, K); uniform where none is set."""
        if release.outputs.dim() == 1 or release.outputs.is_floating_point():
            raise refusal(self.name, release, "bits")
        bits = release.outputs.to(torch.float32)
        count = bits.sum(1, keepdim=True)
        return torch.where(count > 0, bits / count.clamp_min(1), 1 / release.num_classes)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -sum_c target_c log softmax(logits)_c."""
        return -(targets * functional.log_softmax(logits, -1)).sum(-1)
