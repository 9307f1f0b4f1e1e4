"""Local hashing with a public random hash per example (OLH, BLH)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from labeldp_bench.mechanisms.bit_flips import BitFlips
from labeldp_bench.support.validate import check_integer

MOST_BUCKETS = 2**32


@dataclass(frozen=True)
class LocalHashing(BitFlips):
    """Hashes the label to one of g buckets and releases the bucket by randomised response.

    The message is the pair (h, r): a public hash h, drawn uniformly among all functions from
    labels to buckets without looking at the label, and the randomised bucket r. We release the
    bits z_i = 1[h(i) = r]. They lose nothing: P(h, r | label) = P(h) P(r | h, label) depends on
    the label through z alone. Averaged over h the bits are independent, the own one 1 with
    probability e^eps / (e^eps + g - 1), every other with 1/g, and are drawn from that law.

    eps-label-DP under label replacement, tight: with p the own bit's probability,
    p (1 - 1/g) / ((1 - p) / g) = p (g - 1) / (1 - p) = e^eps.
    So local hashing is a unary encoding of log2(g) transmitted bits; where e^eps is an integer and
    g = e^eps + 1 it is OUE.

    Source: Wang, Blocki, Li, Jha (2017), "Locally differentially private protocols for frequency
    estimation", section 4.4 (g = e^eps + 1; g = 2 is binary local hashing).

    Args:
        buckets: g >= 2; None is round(e^eps) + 1, the smallest estimator variance, at most 2**32
            (a 32-bit message), which also keeps it finite at eps=inf.

    >>> LocalHashing(eps=math.log(3)).num_buckets
    4
    """

    buckets: int | None = None

    identity_at_inf: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buckets is not None:
            check_integer("mechanism.buckets", self.buckets, low=2, high=MOST_BUCKETS)

    @property
    def num_buckets(self) -> int:
        """The number g of buckets."""
        if self.buckets is not None:
            return self.buckets
        return min(MOST_BUCKETS, round(math.exp(min(self.eps, 30.0))) + 1)

    @property
    def p_drop(self) -> float:
        """Probability that the label's own bit is 0: its bucket was not reported."""
        others = (self.num_buckets - 1) * math.exp(-self.eps)
        return others / (1 + others)

    @property
    def p_flip(self) -> float:
        """Probability that one wrong label's bit is 1: it fell into the reported bucket."""
        return 1 / self.num_buckets
