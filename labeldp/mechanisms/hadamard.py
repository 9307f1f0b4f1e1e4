"""Hadamard response: half of all messages belong to each label."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms.base import two_levels
from labeldp.mechanisms.bits import BitMechanism, check_bits, evidence_of_ones
from labeldp.mechanisms.encodings import Encoding, whole_numbers_to
from labeldp.mechanisms.noise import Noise, Prior, check_noise, numpy_stream, random_words
from labeldp.mechanisms.response import RandomizedResponse
from labeldp.support.validate import InputError, check_integer, check_labels

ENUMERABLE_ENTRIES = 2**26
"""Entries of the largest table of all messages that is listed."""


@dataclass(frozen=True)
class HadamardResponse(BitMechanism):
    """Releases a uniform message of the label's own half with probability e^eps / (1 + e^eps).

    The message is a number o in [0, L), L the smallest power of two above K. It belongs to label
    i if row i+1 and column o of the Sylvester matrix meet in +1, that is, if (i+1) AND o has an
    even number of ones; else it is uniform outside. We release the K bits z_i = 1[o belongs to i].
    They are a 1-1 function of the message: rows 1, 2, 4, ..., L/2 are all <= K, and each shows one
    binary digit of o.

    eps-label-DP under label replacement, tight: every message has probability
    2/L * {1, e^-eps} * e^eps / (1 + e^eps). At most one bit of information: good for eps <= 1,
    and eps=inf does not identify the label.

    Source: Acharya, Sun, Zhang (2019), "Hadamard response", arXiv:1802.04705 (its form for high
    privacy, one block).

    >>> HadamardResponse(eps=1.0).output_space(10).shape
    torch.Size([16, 10])
    """

    known_as = ("hadamard",)

    draws = 4
    identity_at_inf: ClassVar[bool] = False

    @property
    def p_keep(self) -> float:
        """Probability that the message belongs to the true label."""
        return 1 / (1 + math.exp(-self.eps))

    def encoding(self, num_classes: int) -> "HadamardMessages":
        """Returns the form that keeps the message alone, a whole number of few bytes."""
        check_integer("num_classes", num_classes, low=2)
        return HadamardMessages(self.eps, num_classes)

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns uint8 bits (N, K); O(N K)."""
        form = self.encoding(num_classes)
        return form.outputs(form.draw(labels, generator))

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(message | label = c), float64 (N, K): two values, eps apart."""
        bits = check_bits(released, num_classes)
        form = self.encoding(num_classes)
        digits = torch.arange(num_classes.bit_length())
        message = ((1 - bits[:, 2**digits - 1]) << digits).sum(1)
        is_message = (form.outputs(message) == bits).all(1, keepdim=True)
        inside = math.log(self.p_keep * 2 / form.count)
        log_likelihood = two_levels(bits == 1, inside, inside - self.eps)
        return log_likelihood.masked_fill(~is_message, -math.inf)

    def centred_log_likelihood(
        self, released: Tensor, num_classes: int, prior: Prior = None
    ) -> Tensor:
        """Returns 0 for the labels that the message belongs to, else -eps; see the base."""
        return evidence_of_ones(released, num_classes, self.eps)

    def bit_rates(self, num_classes: int) -> tuple[float, float]:
        """Returns how likely the bit is 1 of the true label, and of one wrong label."""
        return self.p_keep, 0.5

    def likely_sets(self, num_classes: int) -> tuple[Tensor, Tensor]:
        """Returns to how many labels each message belongs, and how often it is released."""
        sizes = message_sizes(num_classes).double()
        inside = sizes * self.p_keep + (num_classes - sizes) * (1 - self.p_keep)
        return sizes, inside * 2 / (len(sizes) * num_classes)

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the bits of all L messages, uint8 (L, K)."""
        form = self.encoding(num_classes)
        if form.count * num_classes > ENUMERABLE_ENTRIES:
            raise InputError(
                f"{form.count} messages of {num_classes} bits are too many to enumerate"
            )
        return form.outputs(torch.arange(form.count))


def message_sizes(num_classes: int) -> Tensor:
    """Returns to how many labels each message of Hadamard response belongs, int64 (L,).

    Message o belongs to label i if (i + 1) AND o has an even number of ones. Rows
    0 to K fall into blocks of 2^b that share their upper bits; the signs of o add up to 0 over a
    block if o has a one among its lower b bits, else to 2^b times the sign of the upper ones.
    """
    count = num_classes + 1
    messages = np.arange(2 ** num_classes.bit_length())
    signs, start = np.zeros(len(messages), np.int64), 0
    for b in reversed(range(count.bit_length())):
        if count >> b & 1:
            sign = 1 - 2 * (np.bitwise_count(messages & start) & 1).astype(np.int64)
            signs += np.where(messages & (2**b - 1), 0, sign << b)
            start += 2**b
    return torch.from_numpy((count + signs) // 2 - 1)  # row 0 is no label's


class HadamardMessages(Encoding):
    """The number o of a message of Hadamard response, (N,): O(N) time, at most 8 bytes a label.

    Args:
        eps: of the mechanism.
        num_classes: K.
    """

    name = "hadamard"

    def __init__(self, eps: float, num_classes: int) -> None:
        super().__init__(num_classes)
        self.eps, self.count = eps, 2 ** num_classes.bit_length()

    def draw(self, labels: Tensor, generator: Noise) -> Tensor:
        """Returns messages in [0, L), L the smallest power of two above K.

        The low digits of one word of 64 bits are a message, the others a coin. The probability that
        the message does not belong to the label is rounded up by less than L / 2^64.
        """
        check_labels(labels, self.num_classes)
        p_outside = RandomizedResponse(self.eps).p_flip(2)
        check_noise("hadamard", self.eps, p_outside, 1 - p_outside)
        words = random_words(len(labels), numpy_stream(generator))
        message = self._narrow(words & np.uint64(self.count - 1))
        outside = words < np.uint64(math.ceil(math.ldexp(p_outside, 64) / self.count) * self.count)
        row = self._narrow(labels.numpy() + 1)
        # Turning one digit that the row looks at swaps the halves one to one.
        turns = (np.bitwise_count(message & row) & 1).view(np.bool_) != outside
        message ^= (row & -row) * turns
        return torch.from_numpy(message)

    def checked(self, messages: Tensor) -> Tensor:
        """Returns the messages if they are in [0, L)."""
        check_labels(messages.to(torch.int64), self.count)
        return messages

    def outputs(self, messages: Tensor) -> Tensor:
        """Returns the bits 1[message belongs to label i], uint8 (N, K)."""
        rows = self._narrow(np.arange(1, self.num_classes + 1))
        # NumPy counts the ones in one instruction.
        ones = np.bitwise_count(self._narrow(self.checked(messages).numpy())[:, None] & rows)
        ones &= 1
        ones ^= 1
        return torch.from_numpy(ones)

    def _narrow(self, numbers: NDArray) -> NDArray:
        """Returns numbers below L in the type of a message."""
        kind = torch.empty(0, dtype=whole_numbers_to(self.count)).numpy().dtype
        return numbers.astype(kind)
