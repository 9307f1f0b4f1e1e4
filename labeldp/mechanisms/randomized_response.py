"""K-ary randomised response."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior
from labeldp.mechanisms.classes import LabelMechanism, two_levels
from labeldp.mechanisms.draws import Noise, integers, numpy_stream, uniforms
from labeldp.mechanisms.secret import SecretGenerator
from labeldp.mechanisms.sum_laws import binomial, group_counts
from labeldp.support.validate import check_integer, check_labels


@dataclass(frozen=True)
class RandomizedResponse(LabelMechanism):
    """Keeps the label with probability e^eps / (e^eps + K - 1), else a uniform other one.

    eps-label-DP under label replacement, tight: the two entries of a column of the transition
    matrix differ by the factor e^eps.

    Source: Warner (1965); as the first stage of Ghazi et al. (2021), arXiv:2102.06062 (LP-1ST).

    >>> RandomizedResponse(eps=math.log(3)).transition_matrix(2).round(decimals=6).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """

    def p_flip(self, num_classes: int) -> float:
        """Returns the probability of each single wrong label (not of all of them together)."""
        # e^-eps in numerator and denominator: the textbook form is NaN at eps=inf.
        tail = math.exp(-self.eps)
        return tail / (1 + (num_classes - 1) * tail)

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns int64 (N,): the label, or a uniform other one; O(N)."""
        check_labels(labels, num_classes)
        total_flip = (num_classes - 1) * self.p_flip(num_classes)
        uniform = uniforms(labels.shape, generator)
        shift = integers(1, num_classes, labels.shape, generator)
        return torch.where(uniform < total_flip, (labels + shift) % num_classes, labels)

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int,
        generator: Noise,
    ) -> Tensor:  # fmt: skip
        """Returns how often each label is released in each group, float64 (G, K).

        From a seed, drawn from the exact law: a label is kept for certain or replaced by a
        uniform one, itself included, with probability K p_flip.
        """
        stream = numpy_stream(generator)
        if isinstance(stream, SecretGenerator):  # exact, and as fast as it need be
            return super().release_groups(labels, num_classes, groups, num_groups, stream)
        counts = group_counts(labels, num_classes, groups, num_groups)
        kept = binomial(counts, 1 - num_classes * self.p_flip(num_classes), stream)
        replaced = (counts - kept).sum(1)
        uniform = stream.multinomial(replaced.numpy(), [1 / num_classes] * num_classes)
        return (kept + torch.from_numpy(uniform)).to(torch.float64)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the two log-probabilities, eps apart, float64 (N, K)."""
        check_labels(released, num_classes)
        keep = -math.log1p((num_classes - 1) * math.exp(-self.eps))
        is_released = torch.arange(num_classes) == released[:, None]
        return two_levels(is_released, keep, keep - self.eps)

    def transition_matrix(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns float64 (K, K), row = true label; the prior plays no role."""
        check_integer("num_classes", num_classes, low=2)
        p_flip = self.p_flip(num_classes)
        matrix = torch.full((num_classes, num_classes), p_flip, dtype=torch.float64)
        return matrix.fill_diagonal_(1 - (num_classes - 1) * p_flip)
