"""Fitted models, and the way from their scores to a class."""

from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import Tensor

from labeldp.support import seeding


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
