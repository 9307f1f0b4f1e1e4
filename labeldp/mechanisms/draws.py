"""Random draws of whole matrices, several times as fast as one float64 uniform for each entry.

A coin needs 8 random bits, and seldom more. A random set needs keys that can be compared, which 32
random bits are.
"""

import math
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from labeldp.mechanisms.secret import SecretGenerator
from labeldp.support.validate import InputError

Noise: TypeAlias = Generator | SecretGenerator
"""What a mechanism draws from: a seeded generator of torch, or secret randomness."""
Stream: TypeAlias = np.random.Generator | SecretGenerator
"""The same for draws in NumPy."""

FACES = 256  # of the byte that decides nearly every coin
LAST_KEY = 2**32 - 1
AT_ONCE = 2**15
MOST_SCALES = 65 * math.log(2)
"""The size of the largest noise that 64 bits give, in scales; see `discrete_laplace`."""
ROWS = 2000  # of a set's keys, drawn at once: they stay in the cache while they are compared


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
    whole = math.floor(probability * FACES)
    faces = _random_bits(math.prod(shape), stream, np.uint8).reshape(shape)
    heads = faces < whole
    undecided = np.flatnonzero(faces == whole)
    heads.ravel()[undecided] = stream.random(len(undecided)) < probability * FACES - whole
    return heads


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
    for start in range(0, len(own), ROWS):
        rows = slice(start, start + ROWS)
        sets[rows] = _few_sets(own[rows], holds_own[rows], size, num_classes, stream)
    return sets


def check_noise(name: str, eps: float, *probabilities: float) -> None:
    """Refuses a finite eps at which rounding makes a coin of a mechanism certain.

    Its noise would be gone, and one output would exclude a label for sure.

    Raises:
        InputError: a probability is 0 or 1.
    """
    if math.isfinite(eps) and any(each in (0.0, 1.0) for each in probabilities):
        raise InputError(
            f"eps={eps:g} is too large for {name} here: in floating point its noise vanishes, so "
            "that labels would leave as they are (take a smaller eps, or inf)"
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
    block, from 53. Numbers up to 44 scales can be drawn, whatever is added to them: floating-point
    noise has gaps, which show what it was added to (Mironov 2012). Each number's probability is
    right to within 2^-53, which is 2^-40 of itself for scales up to 2000 steps.

    Source: Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy",
    section 5.2, for the law.

    Args:
        shape: of the result.
        scale: >= 0, in steps; 0 gives zeros.
        stream: where random numbers come from.

    Raises:
        InputError: see `check_scale`.
    """
    count = math.prod(shape)
    if scale == 0:
        return np.zeros(shape, np.int64)
    check_scale(scale)
    found = np.empty(count, np.int64)
    for start in range(0, count, AT_ONCE):  # what is drawn at once stays in the cache
        part = found[start : start + AT_ONCE]
        part[:] = _signed_sizes(len(part), scale, stream)
    return found.reshape(shape)


def check_scale(scale: float) -> None:
    """Refuses a scale at which no number but 0 can be drawn from 64 bits: the noise would be gone.

    Raises:
        InputError: it is so small, but not 0.
    """
    if scale * MOST_SCALES < 1:
        raise InputError(
            f"eps is too large here: Laplace noise of scale {scale:.3g} on whole numbers vanishes "
            "in floating point, so that counts would leave as they are (take a smaller eps, or inf)"
        )


def _signed_sizes(count: int, scale: float, stream: Stream) -> NDArray[np.int64]:
    digits = max(0, math.floor(math.log2(scale)))
    block = 2**digits
    blocks = stream.integers(0, 2**64, count, dtype=np.uint64).astype(np.float64)
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
    minus = _random_bits(count, stream, np.uint8) >= FACES // 2
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
    keys[np.arange(len(keys)), own] = np.where(holds_own, 0, LAST_KEY)
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
    words = -(-count * np.dtype(kind).itemsize // 8)
    return stream.integers(0, 2**64, words, dtype=np.uint64).view(kind)[:count]
