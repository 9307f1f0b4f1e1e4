"""What a model learns from, and what a fitted model is: targets made from releases, and scores."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from labeldp.losses import Loss
from labeldp.store import StoredRelease
from labeldp.support import seeding
from labeldp.support.validate import InputError


class Classifier(Protocol):
    """A fitted model of classes."""

    def scores(self, features: Tensor) -> Tensor:
        """Returns one score per class, float (m, K), CPU; the largest is the prediction."""

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns class probabilities, float64 (m, K), CPU, rows sum to 1; T < 1 sharpens."""


class Estimator(Protocol):
    """A fitted model of real labels."""

    def values(self, features: Tensor) -> Tensor:
        """Returns one estimate per example, float64 (m,), CPU."""


class LogitClassifier(ABC):
    """A fitted model of classes whose scores are logits."""

    @abstractmethod
    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float (m, K), CPU."""

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns softmax of logits / temperature, float64 (m, K), CPU."""
        return (self.scores(features).to(torch.float64) / temperature).softmax(1)


class VoteClassifier(ABC):
    """A fitted model of classes whose scores are votes, or what votes are to be expected."""

    @abstractmethod
    def scores(self, features: Tensor) -> Tensor:
        """Returns votes, float (m, K), CPU."""

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns vote shares to the power 1 / temperature, float64 (m, K), rows sum to 1."""
        return vote_shares(self.scores(features), temperature)


Fitted = Classifier | Estimator
"""What a learner returns: a model of classes, or of real labels."""


def predict(scores: Tensor, seed: int) -> Tensor:
    """Returns the class with the largest score, int64 (m,); ties go by a random class order.

    The lowest index must not win them: integer votes tie often where the signal is weak.
    """
    order = torch.randperm(scores.shape[1], generator=seeding.generator(seed, "ties"))
    # NumPy's argmax of rows is four times as fast as torch's, and takes the first of equals too.
    return order[torch.from_numpy(scores.index_select(1, order).numpy().argmax(1))]


def vote_shares(votes: Tensor, temperature: float) -> Tensor:
    """Returns vote shares to the power 1 / temperature, float64 (m, K), rows sum to 1.

    A row without a positive vote is uniform; unbiased estimates may be negative, and count as 0.
    """
    positive = votes.to(torch.float64).clamp_min(0)
    # Of the largest: a share to a high power would round to 0.
    largest = positive.amax(1, keepdim=True)
    powers = torch.where(largest > 0, positive / largest, 1.0) ** (1 / temperature)
    return powers / powers.sum(1, keepdim=True)


@dataclass(frozen=True)
class Supervision:
    """What a model may know of the training labels.

    Attributes:
        indices: int64 (n,), which training examples.
        targets: what the loss compares with, first axis n.
        most_likely_labels: bool (n, K), the classes that explain each release best.
        loss: how targets are used.
        refine: called after each epoch with its number and the mean log probabilities, float32
            (n, K), that the network gives in evaluation mode to fresh views of each example, in the
            order of `indices`. Returns the next epoch's targets. None: targets stay as they are.
        validate: returns the score of a classifier on validation labels. Called after each epoch
            if `trainer.selection=best_validation`. None: there are no such labels.
        releases: what the targets were made of, in the order of `indices`; empty where targets
            are no function of releases alone.
    """

    indices: Tensor
    targets: Tensor
    most_likely_labels: Tensor
    loss: Loss
    refine: Callable[[int, Tensor], Tensor] | None = None
    validate: Callable[[Classifier], float] | None = None
    releases: tuple[StoredRelease, ...] = ()

    @classmethod
    def of(cls, releases: Sequence[StoredRelease], loss: Loss) -> "Supervision":
        """Returns the supervision that `loss` draws from releases of different examples.

        Raises:
            InputError: the loss is not a number for each example.
        """
        targets = _joined([loss.targets(release) for release in releases])
        check_loss(loss, targets[:2], releases[0].num_classes)
        return cls(
            _joined([release.indices for release in releases]),
            targets,
            _joined([release.most_likely_labels for release in releases]),
            loss,
            releases=tuple(releases),
        )

    def take(self, kept: Tensor) -> "Supervision":
        """Returns the supervision of the examples where `kept`, bool (n,), is true."""
        assert self.refine is None, "refined targets belong to all examples"
        parts = kept.split([len(release.indices) for release in self.releases] or [len(kept)])
        return replace(
            self,
            indices=self.indices[kept],
            targets=self.targets[kept],
            most_likely_labels=self.most_likely_labels[kept],
            releases=tuple(
                release[part] for release, part in zip(self.releases, parts, strict=False)
            ),
        )

    @property
    def centred_log_likelihood(self) -> Tensor:
        """The log-likelihood of each release less the largest of its row, float32 (n, K)."""
        return _joined([release.centred_log_likelihood for release in self.releases])

    @property
    def num_classes(self) -> int:
        """K."""
        return self.most_likely_labels.shape[1]

    def votes(self) -> Tensor:
        """Returns what each example adds to a vote, float32 (n, K)."""
        return self.loss.votes(self.targets, self.num_classes)


def check_loss(loss: Loss, targets: Tensor, num_classes: int) -> None:
    """Refuses a loss that returns a mean: the trainer would divide it by the batch once more."""
    found = loss(torch.zeros((len(targets), num_classes)), targets)
    if not isinstance(found, Tensor) or found.shape != (len(targets),):
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"learner.loss={loss.name} must return the loss of each example, ({len(targets)},) for "
            f"{len(targets)} of them, got {got} (no mean over the batch)"
        )


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # torch.cat copies even one
