"""Losses: what a learner does with a release.

Each says which numbers it needs from a release (`targets`), how a network is fitted to them
(called on logits) and what a voting learner adds up (`votes`).
"""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp_bench.privacy.release import Release
from labeldp_bench.support.validate import InputError, check_choice


class Loss(ABC):
    """One way to learn from releases."""

    name: str

    def targets(self, release: Release) -> Tensor:
        """Returns what the loss compares with, first axis n.

        Raises:
            InputError: this kind of release has no such target.
            NotImplementedError: the loss takes targets that no release has alone.
        """
        raise NotImplementedError(f"the targets of {self.name} are not made from a release")

    @abstractmethod
    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the loss of each example, (B,), from float32 logits (B, K)."""

    def votes(self, targets: Tensor, num_classes: int) -> Tensor:
        """Returns what a neighbour adds to a vote, float32 (n, K): the targets themselves."""
        return targets


class PlainCrossEntropy(Loss):
    """Softmax cross entropy on the released label, as if it were true."""

    name = "plain"

    def targets(self, release: Release) -> Tensor:
        """Returns the released labels, int64 (n,)."""
        if release.outputs.dim() != 1:
            raise _refuse(self.name, release, "one label per example")
        return release.outputs

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -log softmax(logits) at the released label."""
        return functional.cross_entropy(logits, targets, reduction="none")

    def votes(self, targets: Tensor, num_classes: int) -> Tensor:
        """Returns one vote for the released label."""
        # functional.one_hot makes int64 of eight bytes for each bit first.
        return torch.zeros((len(targets), num_classes)).scatter_(1, targets[:, None], 1)


class FlooredCrossEntropy(PlainCrossEntropy):
    """Cross entropy with 1e-4 added to the probability: at most 9.21 for an example.

    Labels that the network holds for impossible, as noisy ones come to be, pull less and less.

    Source: the code of Liu, Ding (2026), BlockRR; their paper says cross entropy.
    """

    name = "floored"
    floor = 1e-4

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -log(softmax(logits) + 1e-4) at the released label."""
        probabilities = logits.softmax(-1).gather(1, targets[:, None]).squeeze(1)
        return -(probabilities + self.floor).log()


class BinaryCrossEntropy(Loss):
    """One sigmoid per class against the released bits (a released label counts as one-hot).

    Source: Zhao et al. (2025), section 4; softmax does not fit, the bits do not sum to 1.
    """

    name = "bce"

    def targets(self, release: Release) -> Tensor:
        """Returns the released bits, float32 (n, K)."""
        if release.outputs.is_floating_point():
            raise _refuse(self.name, release, "bits or labels")
        if release.outputs.dim() == 1:
            return functional.one_hot(release.outputs, release.num_classes).to(torch.float32)
        return release.outputs.to(torch.float32)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the sum over classes of the binary cross entropies."""
        pairs = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return pairs.sum(-1)


class MarginalLikelihood(Loss):
    """-log of the probability of the release under the network: forward correction.

    Source: Patrini et al. (2017), arXiv:1609.03683 (forward correction). Its gradient is that of
    ALIBI's posterior cross entropy (Malek Esmaeili et al. 2021, arXiv:2106.03408).
    """

    name = "marginal"

    def targets(self, release: Release) -> Tensor:
        """Returns log P(release | class), float32 (n, K), up to a constant per row."""
        return release.evidence

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -log sum_c softmax(logits)_c exp(evidence_c)."""
        return -decode(logits, targets).logsumexp(-1)

    def votes(self, targets: Tensor, num_classes: int) -> Tensor:
        """Returns the posterior of each release under the uniform prior."""
        # Rows are centred. NumPy's exp is twice as fast as torch's, whose softmax is slower still.
        weights = torch.from_numpy(np.exp(targets.numpy()))
        return weights.div_(weights.sum(-1, keepdim=True))


class SoftmaxOnBits(Loss):
    """Softmax cross entropy against the released bits, scaled to sum 1.

    Zhao et al. (2025), section 4, say that softmax does not fit bits; this loss is here to
    measure it.
    """

    name = "softmax_bits"

    def targets(self, release: Release) -> Tensor:
        """Returns the bits divided by their number, float32 (n, K); uniform where none is set."""
        if release.outputs.dim() == 1 or release.outputs.is_floating_point():
            raise _refuse(self.name, release, "bits")
        bits = release.outputs.to(torch.float32)
        count = bits.sum(1, keepdim=True)
        return torch.where(count > 0, bits / count.clamp_min(1), 1 / release.num_classes)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -sum_c target_c log softmax(logits)_c."""
        return -(targets * functional.log_softmax(logits, -1)).sum(-1)


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


def decode(logits: Tensor, evidence: Tensor) -> Tensor:
    """Returns the unnormalised log posterior: log softmax(logits) + log-likelihood.

    The one decoder of all mechanisms: `logits` are the prior, `evidence` what was released.
    """
    return functional.log_softmax(logits, -1) + evidence


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        PlainCrossEntropy(),
        FlooredCrossEntropy(),
        BinaryCrossEntropy(),
        SoftmaxOnBits(),
        MarginalLikelihood(),
        UnbiasedSquares(),
    )
}


def loss_named(name: str) -> Loss:
    """Returns the loss that `learner.loss` names."""
    return LOSSES[check_choice("learner.loss", name, LOSSES)]


def _refuse(loss: str, release: Release, needs: str) -> InputError:
    kind = "reals" if release.outputs.is_floating_point() else "bits"
    kind = "labels" if release.outputs.dim() == 1 else kind
    return InputError(
        f"learner.loss={loss} needs {needs}, but {type(release.mechanism).__name__} releases "
        f"{kind} (use learner.loss=marginal, which fits every release)"
    )
