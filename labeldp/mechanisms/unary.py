"""Unary encodings: RAPPOR, OUE, the family between them, and local hashing."""

import math
from dataclasses import dataclass
from typing import ClassVar

from labeldp.mechanisms.bit_flips import BitFlips
from labeldp.mechanisms.hashes import Hashes
from labeldp.support.validate import check_integer, check_number

MOST_BUCKETS = 2**32


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


@dataclass(frozen=True)
class UnaryEncoding(BitFlips):
    """Keeps the label's own bit with probability `keep`, sets every other as eps allows.

    eps-label-DP under label replacement, tight: the flip probability q solves
    keep (1 - q) / ((1 - keep) q) = e^eps. With keep = e^(eps/2) / (1 + e^(eps/2)) it is RAPPOR,
    with keep = 1/2 it is OUE.

    Source: Wang, Blocki, Li, Jha (2017), "Locally differentially private protocols for frequency
    estimation", section 4 (pure protocols).

    Args:
        keep: probability in (0, 1) that the own bit is 1; None is the midpoint between RAPPOR
            and OUE (ours).

    >>> round(UnaryEncoding(eps=math.log(3), keep=0.5).p_flip, 12)
    0.25
    """

    keep: float | None = None

    identity_at_inf: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep is not None:
            keep = check_number("mechanism.keep", self.keep, above=0, below=1)
            object.__setattr__(self, "keep", keep)

    @property
    def p_drop(self) -> float:
        """Probability that the label's own bit is 0."""
        if self.keep is not None:
            return 1 - self.keep
        half = math.exp(-self.eps / 2)
        return (0.5 + half / (1 + half)) / 2

    @property
    def p_flip(self) -> float:
        """Probability that the bit of one wrong label is 1."""
        odds = (1 - self.p_drop) / self.p_drop * math.exp(-self.eps)
        return odds / (1 + odds)


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

    def encoding(self, num_classes: int) -> Hashes:
        """Returns the form that keeps the message alone: the seed of a hash, and a bucket.

        Its draws are not those of `release`, which needs no hash; their law is the same but for
        what tells the hash from a random function.
        """
        return Hashes(self.eps, 1 - self.p_drop, self.num_buckets, num_classes)
