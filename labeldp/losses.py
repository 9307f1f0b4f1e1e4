"""Losses: how a learner uses what was released of each label.

Each loss says which numbers it needs from a release (`targets`), how a network is fitted to them
(called on logits) and what a voting learner adds up (`votes`).
"""

import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.store import StoredRelease
from labeldp.support.validate import InputError, check_choice


class Loss(ABC):
    """One way to learn from releases.

    Attributes:
        name: what `learner.loss` and messages call it.
        is_likelihood: whether it is -log of the probability of a release, up to a constant, or its
            mean over a soft label; else no evidence of a fit follows from it.
    """

    name: str
    is_likelihood: ClassVar[bool] = False

    def targets(self, release: StoredRelease) -> Tensor:
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


def decode(logits: Tensor, centred_log_likelihood: Tensor) -> Tensor:
    """Returns the unnormalised log posterior: log softmax(logits) + log-likelihood.

    The one decoder of all mechanisms: `logits` are the prior, the other argument what was released.
    """
    return functional.log_softmax(logits, -1) + centred_log_likelihood


def uniform_posterior(centred_log_likelihood: Tensor) -> Tensor:
    """Returns the posterior of each release under the uniform prior, float32 (n, K)."""
    # Rows are centred. NumPy's exp is twice as fast as torch's, whose softmax is slower still.
    weights = torch.from_numpy(np.exp(centred_log_likelihood.numpy()))
    return weights.div_(weights.sum(-1, keepdim=True))


def refusal(loss: str, release: StoredRelease, needs: str) -> InputError:
    """Returns the error of a loss that has no targets for this kind of release.

    Args:
        loss: its name.
        release: what it was given.
        needs: what it takes, e.g. "one label per example".
    """
    kind = "reals" if release.outputs.is_floating_point() else "bits"
    if release.outputs.dim() == 1:
        kind = "labels" if release.are_classes else "answers of a survey"
    return InputError(
        f"learner.loss={loss} needs {needs}, but {release.mechanism.name} releases "
        f"{kind} (use learner.loss=marginal, which fits every release)"
    )


class PlainCrossEntropy(Loss):
    """Softmax cross entropy on the released label, as if it were true."""

    name = "plain"
    is_likelihood = True

    def targets(self, release: StoredRelease) -> Tensor:
        """Returns the released labels, int64 (n,)."""
        if not release.are_classes:
            raise refusal(self.name, release, "one label per example")
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
    is_likelihood = True

    def targets(self, release: StoredRelease) -> Tensor:
        """Returns the released bits, float32 (n, K)."""
        if release.are_classes:
            return functional.one_hot(release.outputs, release.num_classes).to(torch.float32)
        if release.outputs.is_floating_point() or release.outputs.dim() == 1:
            raise refusal(self.name, release, "bits or labels")
        return release.outputs.to(torch.float32)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns the sum over classes of the binary cross entropies."""
        pairs = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return pairs.sum(-1)


class SoftmaxOnBits(Loss):
    """Softmax cross entropy against the released bits, scaled to sum 1.

    Zhao et al. (2025), section 4, say that softmax does not fit bits; this loss is here to
    measure it.
    """

    name = "softmax_bits"
    is_likelihood = True

    def targets(self, release: StoredRelease) -> Tensor:
        """Returns the bits divided by their number, float32 (n, K); uniform where none is set."""
        if release.outputs.dim() == 1 or release.outputs.is_floating_point():
            raise refusal(self.name, release, "bits")
        bits = release.outputs.to(torch.float32)
        count = bits.sum(1, keepdim=True)
        return torch.where(count > 0, bits / count.clamp_min(1), 1 / release.num_classes)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -sum_c target_c log softmax(logits)_c."""
        return -(targets * functional.log_softmax(logits, -1)).sum(-1)


class SoftLabelCrossEntropy(Loss):
    """Softmax cross entropy with the posterior of each release under the uniform prior.

    The soft label is made once and stays. ALIBI's own paper makes it again in training, with the
    network's prediction as prior, which is the gradient of `learner.loss=marginal`.

    Source: Zhao et al. (2025), vector_approximation, appendix B.2, equation 29, there for ALIBI.
    """

    name = "soft_label"
    is_likelihood = True

    def targets(self, release: StoredRelease) -> Tensor:
        """Returns P(class | release) under the uniform prior, float32 (n, K)."""
        return uniform_posterior(release.centred_log_likelihood)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -sum_c target_c log softmax(logits)_c."""
        return -(targets * functional.log_softmax(logits, -1)).sum(-1)


class MarginalLikelihood(Loss):
    """-log of the probability of the release under the network: forward correction.

    Source: Patrini et al. (2017), arXiv:1609.03683 (forward correction). Its gradient is that of
    ALIBI's posterior cross entropy (Malek Esmaeili et al. 2021, arXiv:2106.03408).
    """

    name = "marginal"
    is_likelihood = True

    def targets(self, release: StoredRelease) -> Tensor:
        """Returns log P(release | class), float32 (n, K), up to a constant per row."""
        return release.centred_log_likelihood

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -log sum_c softmax(logits)_c exp(target_c)."""
        return -decode(logits, targets).logsumexp(-1)

    def votes(self, targets: Tensor, num_classes: int) -> Tensor:
        """Returns the posterior of each release under the uniform prior."""
        return uniform_posterior(targets)


class UnbiasedSquares(Loss):
    """Squared distance of the predicted probabilities to an unbiased estimate of the one-hot label.

    Backward correction: up to a constant its mean is the squared loss on true labels. Cross
    entropy with such targets is unbounded below, as their entries may be negative.

    Source: Patrini et al. (2017), arXiv:1609.03683 (backward correction).
    """

    name = "unbiased"

    def targets(self, release: StoredRelease) -> Tensor:
        """Returns the estimates, float32 (n, K); refused for singular channels."""
        return release.mechanism.unbiased(release.outputs, release.num_classes, release.prior).to(
            torch.float32
        )

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns sum_c (softmax(logits)_c - target_c)^2."""
        return (logits.softmax(-1) - targets).square().sum(-1)


LOSSES: Mapping[str, Loss] = {
    loss.name: loss
    for loss in (
        PlainCrossEntropy(),
        FlooredCrossEntropy(),
        BinaryCrossEntropy(),
        SoftmaxOnBits(),
        SoftLabelCrossEntropy(),
        MarginalLikelihood(),
        UnbiasedSquares(),
    )
}
"""The losses of this module by their names."""


def loss_named(name: str, key: str = "learner.loss") -> Loss:
    """Returns the loss that `learner.loss` names.

    Args:
        name: Name of a loss of this module, or `module.Class` of your own.
        key: What the user calls it, for messages.

    Raises:
        InputError: There is no such loss.
    """
    if not (isinstance(name, str) and "." in name):
        return LOSSES[check_choice(key, name, LOSSES)]
    module, _, own = name.rpartition(".")
    try:
        kind = vars(importlib.import_module(module)).get(own)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise InputError(
            f"{key}={name}: no module {module} is found (run `python -m labeldp_bench` in its "
            "folder, or name that in PYTHONPATH)"
        ) from None
    if not (inspect.isclass(kind) and issubclass(kind, Loss)):
        raise InputError(f"{key}={name} must be a class derived from Loss")
    loss: Loss = kind()
    return loss
