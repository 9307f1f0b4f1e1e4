"""Randomised response among the labels that a prior makes likely (RRWithPrior)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.classes import LabelMechanism, check_global_prior, prior_rows
from labeldp.mechanisms.draws import Noise, uniforms
from labeldp.mechanisms.ranking import by_falling_prior, places
from labeldp.support.last_results import LastResults
from labeldp.support.validate import check_choice, check_labels

K_RULES = ("paper", "released_code")
LAST_RANKED = LastResults[tuple[Tensor, Tensor]](copy=True)
"""Of the last prior: a release, its most likely labels and the note on its top k ask one by one."""


@dataclass(frozen=True)
class RandomizedResponseWithPrior(LabelMechanism):
    """Randomised response inside the k most likely labels; a label outside gives a uniform one.

    eps-label-DP under label replacement if the prior does not depend on the label: a released
    label has probability e^eps/Z, 1/Z or 1/k with Z = e^eps + k - 1 and 1/Z <= 1/k <= e^eps/Z.
    Tight for k > 1; for k = 1 the output says nothing.

    Source: Ghazi et al. (2021), "Deep learning with label differential privacy",
    arXiv:2102.06062, Algorithms 1 and 2. k maximises the expected probability of the true label,
    (sum of the k largest priors) / (1 + (k - 1) e^-eps), the smallest k on ties.

    Args:
        k_rule: 'paper', or 'released_code', which divides by 1 + (k - 2) e^-eps: a smaller k,
            the same privacy.

    >>> m = RandomizedResponseWithPrior(eps=1.0)
    >>> m.top_k(torch.tensor([[0.40, 0.25, 0.15, 0.10, 0.05, 0.05]])).tolist()
    [2]
    """

    k_rule: str = "paper"

    tight: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism.k_rule", self.k_rule, K_RULES)

    def top_k(self, prior: Tensor) -> Tensor:
        """Returns how many labels each prior leaves, int64 (rows,), for a prior of (rows, K)."""
        return self._ranked(prior)[1].squeeze(1).clone()  # the kept one stays as it is

    def scores(self, ordered: Tensor) -> Tensor:
        """Returns what is maximised, for k = 1..K, float64 (rows, K).

        Args:
            ordered: priors whose rows fall, float64 (rows, K).
        """
        off_by = 0 if self.k_rule == "paper" else 1
        others = torch.arange(ordered.shape[1], dtype=torch.float64) - off_by
        return ordered.cumsum(1) / (1 + others * math.exp(-self.eps))

    def _ranked(self, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the labels by falling prior, int64 (rows, K), and the top k, int64 (rows, 1)."""
        return LAST_RANKED.get((self, prior), lambda: self._rank(prior))

    def _rank(self, prior: Tensor) -> tuple[Tensor, Tensor]:
        order = by_falling_prior(prior)
        scores = self.scores(prior.gather(1, order).to(torch.float64))
        return order, _first_largest(scores)[:, None] + 1

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns int64 labels (N,), each among the top k of its prior; O(N K log K)."""
        check_labels(labels, num_classes)
        rows = prior_rows(prior, len(labels), num_classes)
        order, size = self._ranked(rows)
        own = places(order).expand(len(labels), -1).gather(1, labels[:, None])
        flips = (size - 1).to(torch.float64) * math.exp(-self.eps)
        uniform = uniforms((3, len(labels), 1), generator)
        flipped = uniform[0] < flips / (1 + flips)
        other = (own + 1 + (uniform[1] * (size - 1)).long()) % size
        anywhere = (uniform[2] * size).long()
        drawn = torch.where(own < size, torch.where(flipped, other, own), anywhere)
        return order.expand(len(labels), -1).gather(1, drawn).squeeze(1)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(released | label = c), float64 (N, K); -inf outside the top k."""
        check_labels(released, num_classes)
        rows = prior_rows(prior, len(released), num_classes)
        order, top_k = self._ranked(rows)
        rank, size = places(order), top_k.to(torch.float64)
        keep = -torch.log1p((size - 1) * math.exp(-self.eps))
        is_released = torch.arange(num_classes) == released[:, None]
        log_likelihood = torch.where(is_released, keep, keep - self.eps)
        log_likelihood = torch.where(rank < size, log_likelihood, -size.log())
        possible = (rank < size).expand(len(released), -1).gather(1, released[:, None])
        return log_likelihood.masked_fill(~possible, -math.inf)

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the released label, bool (N, K); all of them where the prior leaves only one.

        No label outside of the top k is as likely: 1/k < e^eps/Z for k > 1.
        """
        check_labels(released, num_classes)
        rows = prior_rows(prior, len(released), num_classes)
        says_nothing = (self.top_k(rows) == 1)[:, None]
        itself = torch.zeros((len(released), num_classes), dtype=torch.bool)
        return itself.scatter_(1, released[:, None], True).logical_or_(says_nothing)

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns float64 (K, K), row = true label, for one global prior of shape (K,)."""
        prior = check_global_prior(prior, num_classes)
        return self.log_likelihood(torch.arange(num_classes), num_classes, prior).exp().T

    def summary(self) -> dict[str, object]:
        """Returns the rule that chooses k; k itself depends on the prior."""
        return {"k_rule": self.k_rule}


def _first_largest(rows: Tensor) -> Tensor:
    """Returns where each row has its largest value, the first of equals, int64 (rows,)."""
    # NumPy's argmax of rows is up to five times as fast as torch's.
    return torch.from_numpy(rows.numpy().argmax(1))
