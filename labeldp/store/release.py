"""What leaves the store: outputs of a mechanism, and what can be computed from them."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from labeldp.mechanisms.base import Mechanism, count_true


class ReleaseError(RuntimeError):
    """A mechanism failed on true labels; its own message is withheld, as it may hold some."""


@dataclass(frozen=True)
class StoredRelease:
    """What left the store for some examples: all that a learner may know of their labels.

    `Release.stored` is one of your own labels; `Release` adds row ids, what rows spent, and a file.

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

    def __getitem__(self, rows: Tensor) -> "StoredRelease":
        """Returns the release of the chosen examples: positions, or bool (n,)."""
        prior = self.prior
        if prior is not None and prior.dim() == 2:
            prior = prior[rows]
        return replace(self, indices=self.indices[rows], outputs=self.outputs[rows], prior=prior)

    def log_likelihood(self) -> Tensor:
        """Returns the exact log P(output | true label = c), float64 (n, K)."""
        return self.mechanism.log_likelihood(self.outputs, self.num_classes, self.prior)

    @cached_property
    def centred_log_likelihood(self) -> Tensor:
        """The log-likelihood less the largest of its row, float32 (n, K)."""
        return self.mechanism.centred_log_likelihood(self.outputs, self.num_classes, self.prior)

    @cached_property
    def most_likely_labels(self) -> Tensor:
        """Which classes explain the output best, bool (n, K): the argmax set of the likelihood."""
        if "centred_log_likelihood" in vars(self):  # paid for already
            # torch's takes ten times as long
            return torch.from_numpy(self.centred_log_likelihood.numpy() == 0)
        return self.mechanism.most_likely_labels(self.outputs, self.num_classes, self.prior)

    @property
    def are_classes(self) -> bool:
        """Whether each output is one class."""
        return self.outputs.dim() == 1 and self.mechanism.outputs_are_classes

    @cached_property
    def first_choice(self) -> Tensor:
        """The label that was released, int64 (n,); of a set or vector the one it speaks for most.

        Where several explain it equally well, the lowest of them.
        """
        if self.are_classes:
            return self.outputs
        # torch's may not be the first
        return torch.from_numpy(self.most_likely_labels.numpy().argmax(1))

    def agreement(self, true_labels: Tensor) -> Tensor:
        """Returns for each true label 1 / (number of most likely labels) if it is one, else 0.

        Float64 (n,); a diagnostic for who holds true labels, not covered by eps.

        Raises:
            ReleaseError: the mechanism's `most_likely_labels` returns another shape.
        """
        expected = (len(true_labels), self.num_classes)
        if self.most_likely_labels.shape != expected:  # gather would name a label in its message
            name, shape = type(self.mechanism).__name__, tuple(self.most_likely_labels.shape)
            raise ReleaseError(f"{name}.most_likely_labels must have shape {expected}, got {shape}")
        is_hit = self.most_likely_labels.gather(1, true_labels[:, None]).squeeze(1)
        return is_hit.to(torch.float64) / count_true(self.most_likely_labels)
