"""RAPPOR vector approximation."""

import math
from dataclasses import dataclass

from labeldp_bench.mechanisms.bit_flips import BitFlips


@dataclass(frozen=True)
class Rappor(BitFlips):
    """Flips every bit of the one-hot label with the same probability 1 / (1 + e^(eps/2)).

    eps-label-DP under label replacement, tight: two bits change, each with half of eps.

    Source: Zhao et al. (2025), "Enhancing learning with label (local) differential privacy by
    vector approximation", equations 12 and 13; Erlingsson, Pihur, Korolova (2014).

    >>> round(Rappor(eps=2 * math.log(3)).p_flip, 12)
    0.25
    """

    @property
    def p_drop(self) -> float:
        """Probability that the label's own bit is 0."""
        half = math.exp(-self.eps / 2)
        return half / (1 + half)

    @property
    def p_flip(self) -> float:
        """Probability that the bit of one wrong label is 1; the same as `p_drop`."""
        return self.p_drop
