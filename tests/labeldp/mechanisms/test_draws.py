"""Coins, random sets, discrete Laplace noise: their laws, and rare cases by made-up streams."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chi2_contingency, chisquare, dlaplace, ks_2samp

from labeldp.mechanisms import (
    BlockRR,
    LaplaceHistogram,
    LocalFull,
    NoisyClusters,
    Rappor,
    SubsetSelection,
)
from labeldp.mechanisms import noise as draws
from labeldp.mechanisms.noise import SecretGenerator, laplace_sums
from labeldp.store import LabelStore
from labeldp.support.validate import SMALLEST_EPS, InputError
from tests.laws import has_law

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


def words(*keys):
    return np.array(keys, np.uint32).view(np.uint64)


def test_equal_keys_are_drawn_again():
    # A set of d + 1 labels has probability 0 under every label: the audit could not see it.
    keys = words(7, 50, 20, 50, 7, 1, 2, 3)  # two rows of four; own labels 0 and 3
    own, holds = np.array([0, 3]), np.array([True, False])
    stream = Scripted([*keys, *words(9, 30, 10, 40)])
    sets = draws.sets_around(own, holds, 3, 4, stream)
    assert sets.tolist() == [[True, True, True, False], [True, True, True, False]]
    assert not stream.words  # the first row alone, once


def test_keys_equal_to_a_forced_one_do_not_enlarge_a_set():
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


@pytest.mark.parametrize("count", [2, 3, 10, 1000])
def test_a_word_moves_a_place_as_often_as_its_probability_says(count):
    """Enumeration: the first and the last word that lead to each place, and the last word."""
    p_other = 1 / (math.e + count - 1)
    each = math.ceil(math.ldexp(p_other, 64))
    assert 0 <= each / 2**64 - p_other <= math.ulp(p_other) + 2**-64  # rounded up
    words = [word for move in range(count - 1) for word in (move * each, (move + 1) * each - 1)]
    words += [(count - 1) * each, 2**64 - 1]
    own = np.full(len(words), count - 1)
    moved = draws.random_responses(own, count, p_other, Scripted(words))
    assert moved.tolist() == [place for place in range(count) for _ in range(2)]
    assert (own == count - 1).all()


@pytest.mark.parametrize("scale", [0.3, 2.0, 7.5])
@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("sampler", [draws.discrete_laplace, draws.one_word_laplace])
def test_discrete_laplace_law(scale, secret, sampler):
    stream = SecretGenerator() if secret else np.random.default_rng(0)
    noise = sampler((200, 300), scale, stream).ravel().astype(np.int64)
    assert has_law(noise, dlaplace(1 / scale), 1e-6)
    assert not has_law(noise, dlaplace(1 / (0.9 * scale)))


@pytest.mark.parametrize("scale", [0.5, 2.0, 2048.0])
def test_words_of_laplace_noise_lead_to_each_number_as_often_as_they_should(scale):
    """Enumeration: of 2^63 words those that lead to k and beyond are ratio^k / (1 + ratio)."""
    ratio = np.exp(np.longdouble(-1) / scale)
    sizes = np.arange(2, round(20 * scale))
    beyond = np.ldexp(ratio**sizes / (1 + ratio), 63)
    middle = np.ceil(np.ldexp(float(ratio) / (1 + float(ratio)), 63)).astype(np.longdouble)
    for sign in (1, -1):
        for inside in (True, False):
            words = middle + sign * (beyond + (-1) ** inside * (beyond * 2.0**-40 + 2))
            scripted = Scripted((words.astype(np.uint64) << np.uint64(1)).tolist())
            noise = sign * draws.one_word_laplace((len(sizes),), scale, scripted)
            assert ((noise >= sizes) == inside).all()
    ends = Scripted([0, 2**64 - 1])
    assert np.abs(draws.one_word_laplace((2,), scale, ends)).max() <= 1


def test_a_zero_of_laplace_noise_has_no_sign():
    # A count is added to the own entry alone: -0 would say that an entry is not the label's.
    words = np.arange(0, 4096, dtype=np.uint64).tolist()
    noise = draws.one_word_laplace((4096,), 2048.0, Scripted(words))
    assert (noise == 0).any() and not np.signbit(noise[noise == 0]).any()


@pytest.mark.parametrize("secret", [False, True])
def test_discrete_laplace_at_the_smallest_eps(secret):
    # Noise that wraps around, or that 53 bits round, would promise less than its eps.
    scale = 2 * draws.on_grid(torch.tensor(1.0), 1.0).item() / SMALLEST_EPS
    stream = SecretGenerator() if secret else np.random.default_rng(0)
    for noise in (
        draws.discrete_laplace((100_000,), scale, stream),
        laplace_sums(torch.full((20_000,), 2), scale, stream).numpy() / math.sqrt(2),
    ):
        spread = noise.astype(float).std() / (math.sqrt(2) * scale)
        assert spread == pytest.approx(1, abs=6 / math.sqrt(len(noise)))
    assert scale / 2**53 < 0.01 * SMALLEST_EPS


@pytest.mark.parametrize("secret", [False, True])
def test_sums_of_discrete_laplace_have_the_law_of_single_draws(secret):
    stream = SecretGenerator() if secret else np.random.default_rng(0)
    one = laplace_sums(torch.full((20_000,), 5), 3.0, stream).numpy()
    other = draws.discrete_laplace((20_000, 5), 3.0, stream).sum(1)
    assert ks_2samp(one, other).pvalue > 1e-6
    assert laplace_sums(torch.tensor([0, 0]), 3.0, stream).tolist() == [0, 0]
    assert laplace_sums(torch.tensor([4]), 0.0, stream).tolist() == [0]


def test_discrete_laplace_is_that_of_opendp():
    # An error that both our sampler and our tests of it share would stay unseen.
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l1_distance(T=int)
    theirs = opendp.m.make_laplace(*space, scale=4.0)([0] * 20_000)
    ours = draws.discrete_laplace((20_000,), 4.0, SecretGenerator())
    edges = np.arange(-14, 15)
    table = [np.bincount(np.searchsorted(edges, each), minlength=30) for each in (ours, theirs)]
    assert chi2_contingency(table).pvalue > 1e-6


def test_noise_leaves_no_gaps_that_show_a_count():
    # Noise in floating point: up to 81 % of outputs excluded a neighbouring data set for certain.
    rng = np.random.default_rng(0)
    for scale, count in ((2.0, 1), (2048.0, 3)):
        with_one, with_two = (
            count + shift + draws.discrete_laplace((2000,), scale, rng) for shift in (0, 1)
        )
        digits = max(i for i in range(40) if 2**i <= 42 * scale) + 1
        reach = 2**digits - 1  # every whole number up to it has its digits
        assert np.abs(with_one - (count + 1)).max() <= reach
        assert np.abs(with_two - count).max() <= reach
        assert reach >= 42 * scale


def test_grid_holds_a_thousand_steps_and_its_ends():
    for reach in (1.0, 3.0, 0.7, 1e-3, 346.0):
        step = draws.step_of(reach)
        assert 1024 <= reach / step <= 2048 and math.log2(step).is_integer()
        ends = draws.on_grid(torch.tensor([-9e9, -reach, reach, 9e9], dtype=torch.float64), reach)
        assert ends.tolist() == [-round(reach / step)] * 2 + [round(reach / step)] * 2


@pytest.mark.parametrize(
    ("mechanism", "num_classes", "largest"),
    [
        (SubsetSelection, 10, 39.6),
        (Rappor, 10, 74.8),
        (BlockRR, 10, 36.0),
    ],
)
def test_eps_at_which_rounding_takes_the_noise_away_is_refused(mechanism, num_classes, largest):
    # An output would exclude a label for sure, while the ledger books a finite eps.
    labels = torch.arange(num_classes)
    noise = torch.Generator().manual_seed(0)
    with pytest.raises(InputError, match="too large"):
        mechanism(largest + 1.5).release(labels, num_classes, noise)
    mechanism(largest - 1.5).release(labels, num_classes, noise)
    released = mechanism(math.inf).release(labels, num_classes, noise)
    assert len(released) == num_classes


@pytest.mark.parametrize("mechanism", [NoisyClusters, LocalFull])
@pytest.mark.parametrize("secret", [False, True])
def test_eps_at_which_counts_would_leave_as_they_are_is_refused(mechanism, secret):
    # At eps=100 all of a thousand noisy counts were the true ones.
    labels = torch.arange(6) % 3
    noise = SecretGenerator() if secret else torch.Generator().manual_seed(0)

    def released(eps):
        return mechanism(eps).release_groups(labels, 3, labels, 3, noise)

    with pytest.raises(InputError, match="eps is too large here: Laplace noise"):
        released(91.0)
    assert torch.equal(released(90.0), released(math.inf))  # rare, as it should be
    with pytest.raises(InputError, match="too large"):
        LabelStore(labels, 3).open(91.0, 0).release(LaplaceHistogram(91.0), torch.arange(6))
