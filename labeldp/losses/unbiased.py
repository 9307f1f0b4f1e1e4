"""Squares around an unbiased estimate."""

import torch
from torch import Tensor

from labeldp.losses.base import Loss
from labeldp.store.release import Release


class UnbiasedSquares(Loss):
    """Squared distance of the predicted probabilities to an unbiased estimate of the one-hot label.

    Backward correction: up to a constant its mean is the squared loss on true labels. Cross
    entropy with such targets is unbounded below, as their entries may be negative.

    Source: Patrini et al. (2017), arXiv:1609.03683 (backward correction).
    """

    name = "unbiased"

    def targets(self, release: Release) -> Tensor:
        """Returns the estimates, float32 (n, K); refused for singular channels."""
        return release.mechanism.unbiased(release.outputs, release.num_classes, release.prior).to(
            torch.float32
        )

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns sum_c (softmax(logits)_c - target_c)^2."""
        return (logits.softmax(-1) - targets).square().sum(-1)
