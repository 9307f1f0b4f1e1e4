"""Random draws of whole matrices, several times as fast as one float64 uniform for each entry.

A coin needs 8 random bits, seldom more; a random set needs keys to compare, not numbers to
calculate with.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

FACES = 256  # of the byte that decides nearly every coin
LAST_KEY = 2**32 - 1
SMALLEST_TAIL = 2.0**-54  # half of the step of a float64 uniform


def numpy_stream(generator: Generator) -> np.random.Generator:
    """Returns a NumPy generator that `generator` seeds."""
    words = torch.randint(2**32, (4,), generator=generator)
    return np.random.default_rng(words.tolist())


def coins(probability: float, shape: tuple[int, ...], stream: np.random.Generator) -> NDArray:
    """Returns independent coins, bool, True with `probability` to within 2^-61.

    A byte below floor(256 p) is heads, one above is tails; the one that is equal is decided by a
    float64 uniform, once in 256 coins.
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
    stream: np.random.Generator,
) -> NDArray[np.bool_]:
    """Returns uniform random sets of `size` of K labels, bool (N, K), O(N K).

    Args:
        own: the label of each row, int64 (N,).
        holds_own: bool (N,); the set holds the row's own label there, and misses it elsewhere.
        size: in [1, K-1].
        num_classes: K.
        stream: where random numbers come from.
    """
    sets = np.empty((len(own), num_classes), bool)
    open_rows = np.arange(len(own))
    while len(open_rows):
        keys = _random_bits(len(open_rows) * num_classes, stream, np.uint32)
        keys = keys.reshape(-1, num_classes)
        forced = np.where(holds_own[open_rows], 0, LAST_KEY)
        keys[np.arange(len(keys)), own[open_rows]] = forced
        # NumPy selects several times as fast as torch.topk.
        lowest = keys <= np.partition(keys, size - 1, axis=1)[:, size - 1 : size]
        sets[open_rows] = lowest
        # Equal keys at the border make a set too large. All of its row's keys are drawn again,
        # which favours no label.
        open_rows = open_rows[np.count_nonzero(lowest, axis=1) != size]
    return sets


def laplace(shape: tuple[int, ...], stream: np.random.Generator) -> NDArray[np.float64]:
    """Returns independent Laplace variables of scale 1, float64, at most 36.8 in size."""
    uniform = stream.random(shape)
    # The smaller of u and 1 - u, both exact; a uniform of 0 would give an infinite value.
    tail = np.subtract(1, uniform)
    np.minimum(tail, uniform, out=tail)
    np.maximum(tail, SMALLEST_TAIL, out=tail)
    magnitude = np.log(np.multiply(tail, 2, out=tail), out=tail)
    return np.copysign(magnitude, np.subtract(uniform, 0.5, out=uniform), out=magnitude)


def _random_bits(count: int, stream: np.random.Generator, kind: type) -> NDArray:
    """Returns `count` uniform integers over the whole range of an unsigned type."""
    words = -(-count * np.dtype(kind).itemsize // 8)
    return stream.integers(0, 2**64, words, dtype=np.uint64).view(kind)[:count]
