"""Coins, random sets and Laplace noise: their laws, and the rare cases by made-up streams."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare, kstest

from labeldp_bench.mechanisms import draws

TINY = 1e-3 / 256


class Scripted:
    """Stands for a NumPy generator: gives the listed words and uniforms."""

    def __init__(self, words=(), uniforms=()):
        self.words, self.uniforms = list(words), list(uniforms)

    def integers(self, low, high, count, dtype):
        assert (low, high, dtype) == (0, 2**64, np.uint64)
        taken, self.words = self.words[:count], self.words[count:]
        return np.array(taken, dtype)

    def random(self, shape):
        count = math.prod(np.atleast_1d(shape))
        taken, self.uniforms = self.uniforms[:count], self.uniforms[count:]
        return np.array(taken, np.float64).reshape(shape)


@pytest.mark.parametrize("probability", [0.0, TINY, 0.25, 0.377540668798, 1 - TINY, 1.0])
def test_coins_have_their_probability(probability):
    heads = draws.coins(probability, (1000, 1000), np.random.default_rng(0))
    assert heads.shape == (1000, 1000) and heads.dtype == bool
    assert binomtest(int(heads.sum()), heads.size, probability).pvalue > 1e-3


@pytest.mark.parametrize("probability", [0.3, 0.5, 1 - TINY, 0.0, 1.0])
def test_coins_add_up_over_all_bytes(probability):
    """Enumeration: each byte once, and the undecided one split where a uniform must split it."""
    words = np.arange(256, dtype=np.uint8).view(np.uint64)
    whole, rest = divmod(probability * 256, 1)
    for uniform, more in ((rest - 1e-9, 1), (rest + 1e-9, 0)):
        if not 0 <= uniform < 1:
            continue
        heads = draws.coins(probability, (256,), Scripted(words, [uniform]))
        assert heads.sum() == whole + more


def test_sets_are_uniform_given_whether_they_hold_their_own():
    # Privacy rests on it: two sets that both hold a label, or both miss it, are equally likely.
    own = np.full(60_000, 2)
    for holds, size in ((True, 3), (False, 3), (True, 1), (False, 4)):
        sets = draws.sets_around(
            own, own == 2 if holds else own != 2, size, 5, np.random.default_rng(1)
        )
        assert (sets.sum(1) == size).all() and (sets[:, 2] == holds).all()
        seen = {places: 0 for places in combinations(range(5), size) if (2 in places) == holds}
        codes, counts = np.unique(sets @ (1 << np.arange(5)), return_counts=True)
        for code, count in zip(codes, counts, strict=True):
            seen[tuple(place for place in range(5) if code >> place & 1)] = count
        assert min(seen.values()) > 0
        if len(seen) > 1:
            assert chisquare(list(seen.values())).pvalue > 1e-3


def test_equal_keys_are_drawn_again():
    # A set of d + 1 labels has probability 0 under every label: the audit could not see it.
    def words(*keys):
        return np.array(keys, np.uint32).view(np.uint64)

    keys = words(7, 50, 20, 50, 7, 1, 2, 3)  # two rows of four; own labels 0 and 3
    own, holds = np.array([0, 3]), np.array([True, False])
    stream = Scripted([*keys, *words(9, 30, 10, 40)])
    sets = draws.sets_around(own, holds, 3, 4, stream)
    assert sets.tolist() == [[True, True, True, False], [True, True, True, False]]
    assert not stream.words  # the first row alone, once


def test_keys_equal_to_a_forced_one_do_not_enlarge_a_set():
    def words(*keys):
        return np.array(keys, np.uint32).view(np.uint64)

    for holds, clash in ((True, 0), (False, draws.LAST_KEY)):
        size = 1 if holds else 3
        stream = Scripted([*words(5, clash, 6, 7), *words(5, 8, 6, 7)])
        (row,) = draws.sets_around(np.array([0]), np.array([holds]), size, 4, stream)
        assert row.sum() == size and row[0] == holds


def test_later_blocks_have_their_own_coins():
    # Blocks after the first would hold labels by the coins of other examples.
    draws_of = np.random.default_rng(0)
    own = draws_of.integers(0, 5, 2 * draws.ROWS + 1)
    holds = draws_of.random(len(own)) < 0.5
    sets = draws.sets_around(own, holds, 2, 5, draws_of)
    assert (sets[np.arange(len(own)), own] == holds).all()
    assert (sets.sum(1) == 2).all()


def test_laplace_law():
    noise = draws.laplace((500, 400), np.random.default_rng(0))
    assert noise.shape == (500, 400)
    assert kstest(noise.flatten().numpy(), "laplace").pvalue > 1e-3


def test_laplace_noise_is_finite_and_symmetric_at_its_ends():
    """If this fails, one draw in 2^53 is infinite and poisons a loss."""
    step = 2**-53
    low = [0.0, step, 0.25, 0.5 - step]
    noise = draws.laplace((8,), Scripted(uniforms=[*low, *(1 - step - u for u in low)]))
    assert (noise[:4] < 0).all() and (noise[:4] == -noise[4:]).all()
    assert noise[0] == -53 * math.log(2) and noise[2] == pytest.approx(-math.log(2), abs=1e-15)
