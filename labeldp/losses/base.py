"""What every loss is, and the decoder."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.store.release import Release
from labeldp.support.validate import InputError


class Loss(ABC):
    """One way to learn from releases: a file of its own here, named as `learner.loss` names it.

    Attributes:
        name: what messages call it; in this folder the name of its file.
    """

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


def refusal(loss: str, release: Release, needs: str) -> InputError:
    """Returns the error of a loss that has no targets for this kind of release.

    Args:
        loss: its name.
        release: what it was given.
        needs: what it takes, e.g. "one label per example".
    """
    kind = "reals" if release.outputs.is_floating_point() else "bits"
    kind = "labels" if release.outputs.dim() == 1 else kind
    return InputError(
        f"learner.loss={loss} needs {needs}, but {type(release.mechanism).__name__} releases "
        f"{kind} (use learner.loss=marginal, which fits every release)"
    )
