"""Mechanisms that release a bit for each class, and the unary encodings among them."""

import math
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms.base import Prior, count_true
from labeldp.mechanisms.classes import ClassMechanism, check_shape
from labeldp.mechanisms.draws import Noise, check_noise, coins, numpy_stream
from labeldp.mechanisms.encodings import Encoding, bits_encoding
from labeldp.mechanisms.secret import SecretGenerator
from labeldp.mechanisms.sum_laws import binomial, group_counts
from labeldp.support.validate import InputError, check_integer, check_labels

ENUMERABLE_CLASSES = 16


class BitMechanism(ClassMechanism):
    """A mechanism that releases K bits, uint8, one for each class."""

    @abstractmethod
    def bit_rates(self, num_classes: int) -> tuple[float, float]:
        """Returns how likely the bit is 1 of the true label, and of one wrong label."""

    def unbiased(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the debiased bits, float64 (N, K)."""
        bits = check_bits(released, num_classes)
        own, other = self.bit_rates(num_classes)
        if own == other:
            raise InputError("bits that do not depend on the label have no unbiased estimate")
        return (bits.to(torch.float64) - other) / (own - other)


class BitFlips(BitMechanism):
    """A unary encoding: the one-hot label, each of its K bits flipped on its own.

    The label's own bit is 0 with probability `p_drop`, every other bit is 1 with probability
    `p_flip`. A replaced label changes two bits, so the worst ratio is
    (1 - p_drop) (1 - p_flip) / (p_drop p_flip), which must be e^eps.
    """

    @property
    @abstractmethod
    def p_drop(self) -> float:
        """Probability that the label's own bit is 0."""

    @property
    @abstractmethod
    def p_flip(self) -> float:
        """Probability that the bit of one wrong label is 1."""

    def bit_rates(self, num_classes: int) -> tuple[float, float]:
        """Returns how likely the bit is 1 of the true label, and of one wrong label."""
        return 1 - self.p_drop, self.p_flip

    def encoding(self, num_classes: int) -> Encoding:
        """Returns the smaller of packed bits and the positions of the ones."""
        own, other = self.bit_rates(num_classes)
        ones = own + (num_classes - 1) * other
        return bits_encoding(self, num_classes, ones + 4 * math.sqrt(ones))

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns uint8 bits (N, K); O(N K)."""
        check_labels(labels, num_classes)
        check_noise(type(self).__name__, self.eps, 1 - self.p_drop, self.p_flip)
        stream = numpy_stream(generator)
        bits = coins(self.p_flip, (len(labels), num_classes), stream)
        bits[np.arange(len(labels)), labels.numpy()] = coins(1 - self.p_drop, labels.shape, stream)
        return torch.from_numpy(bits.view(np.uint8))

    def release_groups(
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int,
        generator: Noise,
    ) -> Tensor:  # fmt: skip
        """Returns how many bits of each class are 1 in each group, float64 (G, K).

        From a seed, drawn from the exact law: a binomial number of kept ones plus one of
        flipped zeros.
        """
        check_noise(type(self).__name__, self.eps, 1 - self.p_drop, self.p_flip)
        stream = numpy_stream(generator)
        if isinstance(stream, SecretGenerator):  # exact, and as fast as it need be
            return super().release_groups(labels, num_classes, groups, num_groups, stream)
        own = group_counts(labels, num_classes, groups, num_groups)
        others = own.sum(1, keepdim=True) - own
        ones = binomial(own, 1 - self.p_drop, stream) + binomial(others, self.p_flip, stream)
        return ones.to(torch.float64)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(bits | label = c), float64 (N, K), from the number of other ones."""
        bits = check_bits(released, num_classes)
        log_flip, log_stay = _log(self.p_flip), _log1m(self.p_flip)

        # Two values per row: for the labels whose own bit is 1, and for the others.
        def with_own(log_own: float, other_ones: Tensor) -> Tensor:
            other_zeros = (num_classes - 1) - other_ones
            return log_own + _times(other_ones, log_flip) + _times(other_zeros, log_stay)

        ones = bits.sum(1, keepdim=True)
        inside = with_own(_log1m(self.p_drop), (ones - 1).clamp_min(0))
        outside = with_own(_log(self.p_drop), ones.clamp_max(num_classes - 1))
        return torch.where(bits == 1, inside, outside)

    def centred_log_likelihood(
        self, released: Tensor, num_classes: int, prior: Prior = None
    ) -> Tensor:
        """Returns 0 for the labels whose bit is 1, else -eps; see the base."""
        return evidence_of_ones(released, num_classes, self.eps)

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the labels whose bit is 1, bool (N, K); all of them where no bit is."""
        refuse_non_bits(released, num_classes)
        ones = truth_values(released)
        nothing = count_true(ones) == 0
        return ones | nothing[:, None] if nothing.any() else ones

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns all 2**K bit vectors, uint8 (2**K, K)."""
        check_integer("num_classes", num_classes, low=2, high=ENUMERABLE_CLASSES)
        codes = torch.arange(2**num_classes)
        return (codes[:, None] >> torch.arange(num_classes) & 1).to(torch.uint8)

    def extreme_outputs(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the K one-hot vectors, uint8 (K, K).

        The ratio of two labels depends on their own two bits alone and is 1 where those agree.
        """
        return torch.eye(check_integer("num_classes", num_classes, low=2), dtype=torch.uint8)

    def summary(self) -> dict[str, object]:
        """Returns the two probabilities that define the mechanism."""
        return {"p_keep": 1 - self.p_drop, "p_flip": self.p_flip}


def check_bits(released: Tensor, num_classes: int) -> Tensor:
    """Returns `released` as int64 (N, K) if it holds zeros and ones only."""
    refuse_non_bits(released, num_classes)
    return released.to(torch.int64)


def refuse_non_bits(released: Tensor, num_classes: int) -> None:
    """Raises an InputError unless `released` has shape (N, K) and holds zeros and ones only."""
    check_shape("bits", released, num_classes)
    if released.is_floating_point():  # 0.5 would count as 0, and NaN is below and above nothing
        are_bits = bool(((released == 0) | (released == 1)).all())
    else:
        are_bits = not released.numel() or bool(released.min() >= 0 and released.max() <= 1)
    if not are_bits:
        raise InputError("released bits must be 0 or 1")


def evidence_of_ones(released: Tensor, num_classes: int, eps: float) -> Tensor:
    """Returns the centred log-likelihood of mechanisms that favour the labels whose bit is 1.

    Such a label is e^eps times as likely as one whose bit is 0.

    Float32 (N, K), without the float64 that the likelihood needs: 0 and -eps; all 0 in a row that
    has no ones.
    """
    refuse_non_bits(released, num_classes)
    ones = truth_values(released)
    best = ones | ~ones.any(1, keepdim=True)
    return torch.where(best, 0.0, torch.tensor(-eps, dtype=torch.float32))


def truth_values(bits: Tensor) -> Tensor:
    """Returns zeros and ones as bool, in the same memory where they are uint8."""
    return bits.to(torch.uint8).view(torch.bool)


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


def _log1m(probability: float) -> float:
    return math.log1p(-probability) if probability < 1 else -math.inf


def _times(count: Tensor, log_probability: float) -> Tensor:
    """Returns count * log_probability with 0 * -inf = 0, where a NaN would come out."""
    product = count.to(torch.float64) * log_probability
    return torch.where(count == 0, 0.0, product)
