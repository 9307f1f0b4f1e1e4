"""Optimised unary encoding (OUE)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from labeldp_bench.mechanisms.bit_flips import BitFlips


@dataclass(frozen=True)
class OptimizedUnaryEncoding(BitFlips):
    """Keeps the label's own bit with probability 1/2, sets every other with 1 / (1 + e^eps).

    eps-label-DP under label replacement, tight: (1/2)/q * (1-q)/(1/2) = (1-q)/q = e^eps. The
    smallest estimator variance for rare labels among unary encodings; at large eps half of the
    reports are empty, so that eps=inf does not identify the label.

    Source: Wang, Blocki, Li, Jha (2017), "Locally differentially private protocols for frequency
    estimation", section 4.2.

    >>> round(OptimizedUnaryEncoding(eps=math.log(3)).p_flip, 12)
    0.25
    """

    identity_at_inf: ClassVar[bool] = False

    @property
    def p_drop(self) -> float:
        """Probability that the label's own bit is 0."""
        return 0.5

    @property
    def p_flip(self) -> float:
        """Probability that the bit of one wrong label is 1."""
        tail = math.exp(-self.eps)
        return tail / (1 + tail)
