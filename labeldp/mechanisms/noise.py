"""Random numbers of releases: seeded or secret, and fast draws of whole matrices.

A coin needs 8 random bits, and seldom more. A random set needs keys that can be compared, which 32
random bits are.
"""

import math
import os
from typing import NoReturn, SupportsIndex, TypeAlias

import numpy as np
import scipy
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import DTypeLike, NDArray
from torch import Generator, Tensor

from labeldp.support.validate import InputError, check_labels

ZEROS = bytes(1 << 18)  # what is enciphered: the result is the key stream itself
UNIFORM_STEP = 2.0**-53
"""Step of the grid of uniforms, the same as NumPy's and torch's."""

FORKS = [0]
"""How often this process, or one that it was forked from, was the copy of another one."""


def _count_fork() -> None:
    FORKS[0] += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_count_fork)


class SecretGenerator:
    """Draws from the key stream of ChaCha20, under 256 bits of key from the operating system.

    A mechanism takes it in place of a `torch.Generator`. Outputs tell nothing of each other, nor
    of the key, unless ChaCha20 is broken; those of a Mersenne Twister tell its whole state.
    The key is kept by the cipher alone: no attribute holds it, and the
    object can be neither copied nor pickled. Two objects never share their numbers: the copy in a
    forked process takes a new key. Its methods have the names and the meaning of a NumPy
    generator's.

    Source: Bernstein (2008), "ChaCha, a variant of Salsa20"; package `cryptography`.
    """

    __slots__ = ("__cipher", "__forks")

    def __init__(self) -> None:
        self.__take_key()

    def __take_key(self) -> None:
        self.__forks = FORKS[0]
        # The first half of the nonce counts blocks, from 0; the second is random.
        stream = ChaCha20(os.urandom(32), bytes(8) + os.urandom(8))
        self.__cipher = Cipher(stream, mode=None).encryptor()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a SecretGenerator cannot be copied or pickled: its numbers are used once")

    def random(self, size: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Returns uniforms in [0, 1), multiples of 2^-53, float64 of shape `size`."""
        shape = (size,) if isinstance(size, int) else size
        words = self._words(math.prod(shape), np.uint64)
        words >>= np.uint64(11)
        return np.multiply(words, UNIFORM_STEP, dtype=np.float64).reshape(shape)

    def integers(
        self, low: int, high: int, size: int | tuple[int, ...], dtype: DTypeLike = np.int64
    ) -> NDArray:
        """Returns integers in [low, high), each exactly as likely as the others.

        A word beyond the last whole multiple of their number is drawn again.
        """
        shape = (size,) if isinstance(size, int) else size
        span = high - low
        kind, bits = (np.uint32, 32) if span <= 2**32 else (np.uint64, 64)
        words = self._words(math.prod(shape), kind)
        if span == 2**bits:
            return words.astype(dtype, copy=False).reshape(shape)
        rest = 2**bits % span
        if rest:
            beyond = np.flatnonzero(words >= kind(2**bits - rest))
            while len(beyond):
                words[beyond] = self._words(len(beyond), kind)
                beyond = beyond[words[beyond] >= kind(2**bits - rest)]
        words %= kind(span)
        return (words.astype(dtype) + np.asarray(low, dtype)).reshape(shape)

    def _words(self, count: int, kind: type[np.unsignedinteger]) -> NDArray:
        """Returns random words, which the caller may change."""
        if self.__forks != FORKS[0]:  # the process that this one was forked from has the old key
            self.__take_key()
        words = np.empty(count, kind)
        left = words.view(np.uint8)
        while len(left):
            taken = min(len(left), len(ZEROS))
            self.__cipher.update_into(memoryview(ZEROS)[:taken], left[:taken].data)
            left = left[taken:]
        return words


Prior: TypeAlias = Tensor | None
"""What a mechanism may assume: probabilities of the classes, (K,) or (N, K)."""
Noise: TypeAlias = Generator | SecretGenerator
"""What a mechanism draws from: a seeded generator of torch, or secret randomness."""
Stream: TypeAlias = np.random.Generator | SecretGenerator
"""The same for draws in NumPy."""

COIN_FACES = 256  # values of the byte that decides nearly every coin
LARGEST_KEY = 2**32 - 1
DRAWN_AT_ONCE = 2**15
EXCLUDED = 1e-10
"""The largest probability that an output of additive noise may have to exclude a label. Noise ends
where its random bits do, so that a mechanism states the largest eps for which this holds."""
LAPLACE_REACH = 43.4
"""Scales up to which `discrete_laplace` draws every number."""
SUMS_REACH = 53 * math.log(2)
"""The same for `laplace_sums` of several variables: less probability than 2^-53 lies beyond."""
SUM_TOLERANCE = 1e-6
SETS_AT_ONCE = 2000  # whose keys stay in the cache while they are compared


def uniforms(shape: tuple[int, ...], generator: Noise) -> Tensor:
    """Returns uniforms in [0, 1), multiples of 2^-53, float64."""
    if isinstance(generator, SecretGenerator):
        return torch.from_numpy(generator.random(tuple(shape)))
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def integers(low: int, high: int, shape: tuple[int, ...], generator: Noise) -> Tensor:
    """Returns uniform integers in [low, high), int64."""
    if isinstance(generator, SecretGenerator):
        return torch.from_numpy(generator.integers(low, high, tuple(shape)))
    return torch.randint(low, high, shape, generator=generator)


def numpy_stream(generator: Noise) -> Stream:
    """Returns a NumPy generator that `generator` seeds; secret randomness as it is."""
    if isinstance(generator, SecretGenerator):
        return generator
    words = torch.randint(2**32, (4,), generator=generator)
    return np.random.default_rng(words.tolist())


def coins(probability: float, shape: tuple[int, ...], stream: Stream) -> NDArray:
    """Returns independent coins, bool, True with `probability` to within 2^-61.

    A byte below floor(256 p) is heads, one above is tails. An equal byte, once in 256 coins, leaves
    the coin to a float64 uniform.
    """
    whole = math.floor(probability * COIN_FACES)
    faces = _random_bits(math.prod(shape), stream, np.uint8).reshape(shape)
    heads = faces < whole
    undecided = np.flatnonzero(faces == whole)
    heads.ravel()[undecided] = stream.random(len(undecided)) < probability * COIN_FACES - whole
    return heads


def random_words(count: int, stream: Stream) -> NDArray[np.uint64]:
    """Returns uniform 64-bit words, which the caller may change, uint64 (count,)."""
    return stream.integers(0, 2**64, count, dtype=np.uint64)


def random_responses(
    own: NDArray, num_places: int, p_other: float, stream: Stream
) -> NDArray[np.int64]:
    """Returns each place itself, or another one, each other one with `p_other`; int64 (N,).

    One word of 64 bits decides whether and where. Of its values ceil(2^64 p_other) lead to each
    other place: the probability is rounded up by less than 2^-64, so that no ratio of two
    probabilities is larger than `p_other` has it.

    Args:
        own: in [0, num_places), int64 or uint64 (N,).
        num_places: at least 2.
        p_other: in [0, 1 / num_places]; 0 moves nothing.
        stream: where random numbers come from.
    """
    released = own.astype(np.int64)
    if p_other == 0:
        return released
    values_of_each = np.uint64(math.ceil(math.ldexp(p_other, 64)))
    for start in range(0, len(own), DRAWN_AT_ONCE):
        part = released[start : start + DRAWN_AT_ONCE].view(np.uint64)
        moves = random_words(len(part), stream)
        moves //= values_of_each
        part += np.minimum(moves, num_places - 1, out=moves)
        part += np.uint64(1)
        # A place beyond the last one starts again; below 0 wraps around to a huge number.
        np.minimum(part, part - np.uint64(num_places), out=part)
    return released


def draw_columns(transition: Tensor, rows: Tensor, generator: Noise) -> Tensor:
    """Returns one column index, int64 (N,), drawn from each of the named rows' distributions."""
    cumulative = transition.cumsum(1)
    check_sums(cumulative[:, -1], "row {} of the transition matrix sums to {:.6g}, not to 1")
    # The last sum may round to just below 1. Dividing by it keeps every draw in a column.
    cumulative = cumulative / cumulative[:, -1:]
    # How many of the 2^53 uniforms lead to each column; exact, as 2^53 is a power of two.
    before = cumulative.new_zeros(len(cumulative), 1)
    reached = (cumulative * 2.0**53).ceil().diff(dim=1, prepend=before)
    if ((transition > 0) & (reached == 0)).any():
        raise InputError(
            "eps is too large here: in floating point a rare output is never drawn, so that it "
            "would exclude a label (take a smaller eps, or inf)"
        )
    uniform = uniforms((len(rows), 1), generator)
    return torch.searchsorted(cumulative[rows], uniform, right=True).squeeze(1)


def check_sums(sums: Tensor, message: str) -> None:
    """Refuses probabilities, of each label or row, that do not sum to 1.

    Args:
        sums: (n,).
        message: with places for which one it is, and for its sum.
    """
    wrong = ((sums - 1).abs() > SUM_TOLERANCE).nonzero()
    if len(wrong):
        place = int(wrong[0])
        raise InputError(message.format(place, float(sums[place])))


def sets_around(
    own: NDArray[np.int64],
    holds_own: NDArray[np.bool_],
    size: int,
    num_classes: int,
    stream: Stream,
) -> NDArray[np.bool_]:
    """Returns uniform random sets of `size` of K labels, bool (N, K), O(N K).

    Args:
        own: the label of each row, int64 (N,).
        holds_own: bool (N,); whether the row's set holds its own label.
        size: in [1, K-1].
        num_classes: K.
        stream: where random numbers come from.
    """
    sets = np.empty((len(own), num_classes), bool)
    for start in range(0, len(own), SETS_AT_ONCE):
        rows = slice(start, start + SETS_AT_ONCE)
        sets[rows] = _few_sets(own[rows], holds_own[rows], size, num_classes, stream)
    return sets


def check_noise(name: str, eps: float, *probabilities: float) -> None:
    """Refuses a finite eps at which rounding makes a coin of a mechanism certain.

    Its noise would be gone, and one output would exclude a label with certainty.

    Raises:
        InputError: a probability is 0 or 1.
    """
    if math.isfinite(eps) and any(each in (0.0, 1.0) for each in probabilities):
        raise InputError(
            f"eps={eps:g} is too large for {name} here: in floating point its noise vanishes, so "
            "that labels would leave as they are (take a smaller eps, or inf)"
        )


def check_reach(eps: float, most: float) -> None:
    """Refuses a finite eps at which additive noise ends so near that outputs exclude a label.

    Args:
        eps: of the mechanism.
        most: the largest finite one that its noise allows; see `EXCLUDED`.

    Raises:
        InputError: eps is larger.
    """
    if most < eps < math.inf:
        raise InputError(
            f"eps={eps:g} is too large for additive noise here: it must be at most {most:.4g}, or "
            "inf, as noise ends where its random bits do, and an output beyond its end would "
            "exclude a label for certain (take a smaller eps, or for classes mechanism=rr)"
        )


def step_of(reach: float) -> float:
    """Returns the step of the grid that real labels up to `reach` are rounded to.

    A power of two, between 1/2048 and 1/1024 of the reach.
    """
    return math.ldexp(1.0, math.frexp(reach)[1] - 11)


def on_grid(values: Tensor, reach: float) -> Tensor:
    """Returns values, clipped to [-reach, reach], as whole numbers of steps, float64."""
    return (values.clamp(-reach, reach) / step_of(reach)).round()


def discrete_laplace(shape: tuple[int, ...], scale: float, stream: Stream) -> NDArray[np.int64]:
    """Returns whole numbers k with P(k) proportional to exp(-|k| / scale), int64.

    A sign and a geometric size; a minus before 0 is drawn again. The size is in two parts, which
    are independent: how many blocks of about one scale, from 64 random bits, and the place in the
    block, from 53. Every number up to `LAPLACE_REACH` scales can be drawn, whatever is added to it:
    floating-point noise has gaps, which show what it was added to (Mironov 2012). Beyond, with a
    probability of 1.4e-19, only some can, the last at 45 scales. Each number's probability is
    right to within 2^-53, which is 2^-40 of itself for scales up to 2000 steps; the errors of all
    of them together are about scale / 2^53.

    Source: Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy",
    section 5.2, for the distribution.

    Args:
        shape: of the result.
        scale: >= 0, in steps; 0 gives zeros.
        stream: where random numbers come from.
    """
    count = math.prod(shape)
    if scale == 0:
        return np.zeros(shape, np.int64)
    found = np.empty(count, np.int64)
    for start in range(0, count, DRAWN_AT_ONCE):  # what is drawn at once stays in the cache
        part = found[start : start + DRAWN_AT_ONCE]
        part[:] = _signed_sizes(len(part), scale, stream)
    return found.reshape(shape)


def one_word_reach(scale: float) -> float:
    """Returns up to how many scales `one_word_laplace` draws every number.

    >>> round(one_word_reach(2048.0), 1)
    35.4
    """
    return 62 * math.log(2) - math.log(scale)


def one_word_laplace(shape: tuple[int, ...], scale: float, stream: Stream) -> NDArray[np.float64]:
    """Returns whole numbers k with P(k) proportional to exp(-|k| / scale), float64.

    Four times as fast as `discrete_laplace`, and coarser in the tail: one random word chooses both
    the side and the size. Every number up to ln(2^62 / scale) scales can be drawn (35 scales where
    the scale is 2048). Beyond, with probability scale / 2^62, only some numbers can, the last at
    43.7 scales. The errors of all probabilities together are at most scale / 2^53 (by enumeration
    for scales of 0.5 to 200,000).

    Args:
        shape: of the result.
        scale: > 0, in steps.
        stream: where random numbers come from.
    """
    ratio = math.exp(-1 / scale)
    # With P(k < 0) = ratio / (1 + ratio) both sides are geometric, and 0 is on one of them alone.
    below = np.uint64(math.ceil(math.ldexp(ratio / (1 + ratio), 63)))
    noise = np.empty(math.prod(shape))
    for start in range(0, len(noise), DRAWN_AT_ONCE // 2):  # what is drawn stays in the cache
        words = random_words(len(noise[start : start + DRAWN_AT_ONCE // 2]), stream)
        words >>= np.uint64(1)
        words -= below  # wraps around: read as int64, a place from -below on
        places = words.view(np.int64).astype(np.float64)
        places += 0.5  # never 0, whose logarithm is infinite
        sizes = np.abs(places, out=noise[start : start + DRAWN_AT_ONCE // 2])
        sizes *= math.ldexp(1 + ratio, -63)
        np.log(sizes, out=sizes)
        sizes *= -scale
        np.floor(sizes, out=sizes)
        np.copysign(sizes, places, out=sizes)
        sizes += 0.0  # -0 becomes 0: adding a count to it would, and the sign would show the label
    return noise.reshape(shape)


def _signed_sizes(count: int, scale: float, stream: Stream) -> NDArray[np.int64]:
    digits = max(0, math.floor(math.log2(scale)))
    block = 2**digits
    blocks = random_words(count, stream).astype(np.float64)
    blocks += 0.5  # never 0, whose logarithm is infinite
    blocks *= 2.0**-64
    np.log(blocks, out=blocks)
    blocks *= -scale / block
    sizes = blocks.astype(np.int64)  # rounds down
    if digits:
        place = stream.random(count)
        place *= math.expm1(-block / scale)
        np.log1p(place, out=place)
        place *= -scale
        sizes *= block
        sizes += np.minimum(place.astype(np.int64), block - 1)
    minus = _random_bits(count, stream, np.uint8) >= COIN_FACES // 2
    again = np.flatnonzero(minus & (sizes == 0))
    np.negative(sizes, out=sizes, where=minus)
    if len(again):
        sizes[again] = _signed_sizes(len(again), scale, stream)
    return sizes


def _few_sets(
    own: NDArray[np.int64],
    holds_own: NDArray[np.bool_],
    size: int,
    num_classes: int,
    stream: Stream,
) -> NDArray[np.bool_]:
    keys = _random_bits(len(own) * num_classes, stream, np.uint32).reshape(-1, num_classes)
    keys[np.arange(len(keys)), own] = np.where(holds_own, 0, LARGEST_KEY)
    # NumPy selects several times as fast as torch.topk.
    sets = keys <= np.partition(keys, size - 1, axis=1)[:, size - 1 : size]
    if np.count_nonzero(sets) > size * len(sets):
        # Equal keys at the border make a set too large. Its row draws all keys again, which favours
        # no label.
        again = np.flatnonzero(np.count_nonzero(sets, axis=1) != size)
        sets[again] = _few_sets(own[again], holds_own[again], size, num_classes, stream)
    return sets


def _random_bits(count: int, stream: Stream, kind: type) -> NDArray:
    """Returns `count` uniform integers over the whole range of an unsigned type."""
    return random_words(-(-count * np.dtype(kind).itemsize // 8), stream).view(kind)[:count]


def group_counts(labels: Tensor, num_classes: int, groups: Tensor, num_groups: int) -> Tensor:
    """Returns how often each class occurs in each group, int64 (G, K); checks the labels."""
    check_labels(labels, num_classes)
    pairs = groups * num_classes + labels
    counts = torch.bincount(pairs, minlength=num_groups * num_classes)
    return counts.reshape(num_groups, num_classes)


def group_sums(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Returns the sum of the values in each group, float64 (G,)."""
    sums = np.bincount(groups.numpy(), weights=values.numpy(), minlength=num_groups)
    return torch.from_numpy(sums)


def group_sizes(groups: Tensor, num_groups: int) -> Tensor:
    """Returns the number of labels in each group, int64 (G,)."""
    return torch.bincount(groups, minlength=num_groups)


def binomial(counts: Tensor, probability: float, stream: np.random.Generator) -> Tensor:
    """Returns the number of ones among `counts` independent bits, int64, same shape."""
    return torch.from_numpy(stream.binomial(counts.numpy(), probability))


def laplace_sums(counts: Tensor, scale: float, stream: Stream) -> Tensor:
    """Returns the sum of `counts` discrete Laplace variables of the scale, whole float64.

    Such a variable is a difference of two geometric ones, so that n of them are a difference of two
    negative binomial ones; 0 where there are none. Single ones are drawn digit by digit; of secret
    sums the uniforms are inverted, so that their distribution holds to 2^-53.
    """
    sizes = counts.numpy()
    if scale == 0 or not sizes.any():
        return torch.zeros(counts.shape, dtype=torch.float64)
    if sizes.max() == 1:
        single = discrete_laplace(counts.shape, scale, stream) * sizes
        return torch.from_numpy(single).to(torch.float64)
    share, some = -math.expm1(-1 / scale), np.maximum(sizes, 1)
    if isinstance(stream, SecretGenerator):
        parts = [scipy.stats.nbinom.ppf(stream.random(sizes.shape), some, share) for _ in range(2)]
    else:
        parts = [stream.negative_binomial(some, share).astype(np.float64) for _ in range(2)]
    return torch.from_numpy(np.where(sizes > 0, parts[0] - parts[1], 0.0))


DRAWS = 2
"""Version of the draws of a mechanism that names no other as its `draws`.

Two runs of one cell under one seed have the same releases if they have the same version. A record
has the largest version of what was released. test_version.py pins what every mechanism releases and
fails where its number was not raised.

1: records up to the change of noise streams, of commits before 6728eca. 2: since.
3: of mechanisms with Laplace noise, since that is drawn in whole steps; of `pate_fm`, since other
teachers have other noise.
4: of `rr`, `alibi`, `hadamard` and the messages of `local_hashing`, since one random word decides.
"""

DISTRIBUTION = 1
"""Version of the distribution of a mechanism's releases, where it names no other.

Raised where a change of the samplers changes probabilities, not draws alone: runs that differ in
`draws` only are runs of one experiment. A record has the largest version of what was released.

2: of mechanisms with Laplace noise, since it is discrete. Its variance is lower: on
whole numbers at scale 1/2, as `local_full` draws it for eps=4, 0.72 times that of continuous noise.
"""
