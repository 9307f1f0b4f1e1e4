"""Mechanisms that release bits or a hash: RAPPOR, unary encodings, local hashing."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms.base import ClassMechanism, check_shape, count_true
from labeldp.mechanisms.encodings import Encoding, bits_encoding
from labeldp.mechanisms.noise import (
    Noise,
    Prior,
    SecretGenerator,
    binomial,
    check_noise,
    coins,
    group_counts,
    numpy_stream,
    random_responses,
    random_words,
)
from labeldp.mechanisms.response import RandomizedResponse
from labeldp.support.validate import InputError, check_integer, check_labels, check_number

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

    def likely_sets(self, num_classes: int) -> tuple[Tensor, Tensor]:
        """Returns how many bits can be 1, without and with the own one, and how often."""
        others = torch.arange(num_classes, dtype=torch.float64)
        chance = _binomial(num_classes - 1, self.p_flip)
        sizes = torch.cat([others, others + 1])
        return sizes, torch.cat([self.p_drop * chance, (1 - self.p_drop) * chance])

    def law(self, num_classes: int) -> dict[str, Any]:
        """Returns a law of kind `bits`; see the base."""
        own, other = self.bit_rates(num_classes)
        return {"kind": "bits", "own": own, "other": other}

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
        self, labels: Tensor, num_classes: int, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns how many bits of each class are 1 in each group, float64 (G, K).

        From a seed, drawn from the exact distribution: a binomial number of kept ones plus one of
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
        ones = truth_values(released, num_classes)
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


def _binomial(count: int, p: float) -> Tensor:
    """Returns the probabilities of 0 to `count` successes, float64 (count + 1,)."""
    k = torch.arange(count + 1, dtype=torch.float64)
    ways = math.lgamma(count + 1) - torch.lgamma(k + 1) - torch.lgamma(count - k + 1)
    p_of = torch.tensor(p, dtype=torch.float64)
    chance = (ways + torch.special.xlogy(k, p_of) + torch.special.xlog1py(count - k, -p_of)).exp()
    return chance / chance.sum()


def check_bits(released: Tensor, num_classes: int) -> Tensor:
    """Returns `released` as int64 (N, K) if it holds zeros and ones only."""
    truth_values(released, num_classes)
    return released.to(torch.int64)


def truth_values(released: Tensor, num_classes: int) -> Tensor:
    """Returns `released` as bool (N, K), in the same memory where it is uint8.

    Raises:
        InputError: another shape, or other values than zeros and ones.
    """
    check_shape("bits", released, num_classes)
    if released.is_floating_point():  # 0.5 would count as 0, and NaN is below and above nothing
        are_bits = bool(((released == 0) | (released == 1)).all())
    else:
        are_bits = not released.numel() or bool(released.min() >= 0 and released.max() <= 1)
    if not are_bits:
        raise InputError("released bits must be 0 or 1")
    return released.to(torch.uint8).view(torch.bool)


def evidence_of_ones(released: Tensor, num_classes: int, eps: float) -> Tensor:
    """Returns the centred log-likelihood of mechanisms that favour the labels whose bit is 1.

    Such a label is e^eps times as likely as one whose bit is 0.

    Float32 (N, K), without the float64 that the likelihood needs: 0 and -eps; all 0 in a row that
    has no ones.
    """
    ones = truth_values(released, num_classes)
    best = ones | ~ones.any(1, keepdim=True)
    return torch.where(best, 0.0, torch.tensor(-eps, dtype=torch.float32))


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


def _log1m(probability: float) -> float:
    return math.log1p(-probability) if probability < 1 else -math.inf


def _times(count: Tensor, log_probability: float) -> Tensor:
    """Returns count * log_probability with 0 * -inf = 0, where a NaN would come out."""
    product = count.to(torch.float64) * log_probability
    return torch.where(count == 0, 0.0, product)


SPLITMIX_STEP, SPLITMIX_FIRST, SPLITMIX_SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
"""Constants of SplitMix64: the step of its state and the factors of its two rounds."""
HASH_AND_BUCKET = np.dtype([("seed", "<u8"), ("bucket", "<u4")])


class Hashes(Encoding):
    """A public hash and the bucket that was released: 12 bytes a label, uint8 (N, 12).

    The hash of label i is SplitMix64's output for seed and i, as a bucket. The seed is 64 random
    bits, drawn without looking at the label, and the bucket follows randomised response over
    buckets; so eps holds whatever the hash does, and the likelihood given the seed is exact. That
    different labels fall into one bucket as often as those of a random function, 1/g, is a property
    of the hash that is measured in tests, not proven.

    Args:
        eps: of the mechanism.
        buckets: g, in [2, 2^32].
        num_classes: K.
    """

    name = "hash and bucket"

    def __init__(self, eps: float, buckets: int, num_classes: int) -> None:
        super().__init__(num_classes)
        self.eps, self.buckets = eps, buckets

    def draw(self, labels: Tensor, generator: Noise) -> Tensor:
        """Returns seeds and buckets; O(N)."""
        check_labels(labels, self.num_classes)
        p_other = RandomizedResponse(self.eps).p_flip(self.buckets)
        check_noise("local_hashing", self.eps, p_other)
        stream = numpy_stream(generator)
        messages = np.empty(len(labels), HASH_AND_BUCKET)
        messages["seed"] = seeds = random_words(len(labels), stream)
        own = hashed(seeds, labels.numpy(), self.buckets)
        messages["bucket"] = random_responses(own, self.buckets, p_other, stream)
        return torch.from_numpy(messages.view(np.uint8).reshape(-1, 12))

    def checked(self, messages: Tensor) -> Tensor:
        """Returns the messages if their buckets are in [0, g)."""
        if messages.dtype != torch.uint8 or messages.shape[1:] != (12,):
            raise InputError("a hash and its bucket must have 12 bytes")
        if len(messages) and int(self._split(messages)[1].max()) >= self.buckets:
            raise InputError(f"buckets must be in [0, {self.buckets - 1}]")
        return messages

    def outputs(self, messages: Tensor) -> Tensor:
        """Returns the bits 1[label i falls into the bucket], uint8 (N, K)."""
        seeds, bucket = self._split(self.checked(messages))
        labels = np.arange(self.num_classes)
        return torch.from_numpy(
            (hashed(seeds[:, None], labels, self.buckets) == bucket[:, None]).view(np.uint8)
        )

    def _split(self, messages: Tensor) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        both = np.ascontiguousarray(messages.numpy()).view(HASH_AND_BUCKET).ravel()
        return both["seed"].astype(np.uint64), both["bucket"].astype(np.uint64)


def hashed(seeds: NDArray[np.uint64], labels: NDArray[np.int64], buckets: int) -> NDArray:
    """Returns the bucket of each label under each seed, uint64 of their common shape.

    Source: Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators".

    Args:
        seeds: uint64.
        labels: int64, >= 0; broadcast against the seeds.
        buckets: g, in [2, 2^32].
    """
    with np.errstate(over="ignore"):
        mixed = seeds + (labels.astype(np.uint64) + np.uint64(1)) * SPLITMIX_STEP
        mixed ^= mixed >> np.uint64(30)
        mixed *= SPLITMIX_FIRST
        mixed ^= mixed >> np.uint64(27)
        mixed *= SPLITMIX_SECOND
        mixed ^= mixed >> np.uint64(31)
        # The upper half of the bits, as a share of g.
        mixed >>= np.uint64(32)
        mixed *= np.uint64(buckets)
    mixed >>= np.uint64(32)
    return mixed


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

    known_as = ("rappor",)

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

    known_as = ("oue",)

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

    known_as = ("unary",)

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
    probability e^eps / (e^eps + g - 1), every other with 1/g, and are drawn from that distribution.

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

    known_as = ("local_hashing",)

    buckets: int | None = None

    draws = 4
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

        Its draws are not those of `release`, which needs no hash; their distribution is the same
        but for what tells the hash from a random function.
        """
        return Hashes(self.eps, self.num_buckets, num_classes)
