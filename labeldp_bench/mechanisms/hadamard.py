"""Hadamard response: half of all messages belong to each label."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from labeldp_bench.mechanisms.base import Prior
from labeldp_bench.mechanisms.bit_flips import BitMechanism, check_bits
from labeldp_bench.mechanisms.classes import two_levels
from labeldp_bench.mechanisms.draws import Noise, check_noise, integers, uniforms
from labeldp_bench.support.validate import check_integer, check_labels


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

    identity_at_inf: ClassVar[bool] = False

    @property
    def p_keep(self) -> float:
        """Probability that the message belongs to the true label."""
        return 1 / (1 + math.exp(-self.eps))

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns uint8 bits (N, K); O(N K + K^2)."""
        check_labels(labels, num_classes)
        check_noise("hadamard", self.eps, self.p_keep)
        table = self.output_space(num_classes)
        message = integers(0, len(table), labels.shape, generator)
        uniform = uniforms(labels.shape, generator)
        belongs = table[message, labels] == 1
        # Turning one digit that the row looks at swaps the halves one to one.
        row = labels + 1
        message = torch.where(belongs == (uniform < self.p_keep), message, message ^ (row & -row))
        return table[message]

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns log P(message | label = c), float64 (N, K): two values, eps apart."""
        bits = check_bits(released, num_classes)
        table = self.output_space(num_classes)
        digits = torch.arange(len(table).bit_length() - 1)
        message = ((1 - bits[:, 2**digits - 1]) << digits).sum(1)
        is_message = (table[message] == bits).all(1, keepdim=True)
        inside = math.log(self.p_keep * 2 / len(table))
        log_likelihood = two_levels(bits == 1, inside, inside - self.eps)
        return log_likelihood.masked_fill(~is_message, -math.inf)

    def bit_rates(self, num_classes: int) -> tuple[float, float]:
        """Returns how likely the bit is 1 of the true label, and of one wrong label."""
        return self.p_keep, 0.5

    def output_space(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the bits of all L messages, uint8 (L, K)."""
        check_integer("num_classes", num_classes, low=2)
        message = torch.arange(2 ** num_classes.bit_length())
        parity = message[:, None] & torch.arange(1, num_classes + 1)
        for shift in (32, 16, 8, 4, 2, 1):
            parity = parity ^ (parity >> shift)
        return (1 - (parity & 1)).to(torch.uint8)
