"""Coins, random sets, discrete Laplace noise: their laws, and rare cases by made-up streams."""

import math
from functools import partial
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chi2_contingency, chisquare, dlaplace, ks_2samp

from labeldp.mechanisms import (
    AdditiveLaplace,
    BlockRR,
    ClippedLaplace,
    CubeMeans,
    ExponentialCubes,
    FullCubeMeans,
    LabelDPPro,
    Laplace,
    LaplaceHistogram,
    LocalFull,
    NoisyClusters,
    NoisyMoments,
    PateFM,
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
    for holds, clash in ((True, 0), (False, draws.LARGEST_KEY)):
        size = 1 if holds else 3
        stream = Scripted([*words(5, clash, 6, 7), *words(5, 8, 6, 7)])
        (row,) = draws.sets_around(np.array([0]), np.array([holds]), size, 4, stream)
        assert row.sum() == size and row[0] == holds


def test_later_blocks_have_their_own_coins():
    # Blocks after the first would hold labels by the coins of other examples.
    draws_of = np.random.default_rng(0)
    own = draws_of.integers(0, 5, 2 * draws.SETS_AT_ONCE + 1)
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


@pytest.mark.parametrize("scale", [51.2, 2048.0, 1e5])
def test_one_word_leads_to_every_number_up_to_its_reach_and_not_to_every_one_beyond(scale):
    """Enumeration of the words around the middle, from the largest number down to dense ones."""
    ratio = math.exp(-1 / scale)
    middle = math.ceil(math.ldexp(ratio / (1 + ratio), 63))
    for side in (1, -1):
        words = [middle + side * place - (side < 0) for place in range(round(8 * scale))]
        scripted = Scripted([word << 1 for word in words])
        drawn = set((side * draws.one_word_laplace((len(words),), scale, scripted)).tolist())
        reach = math.floor(draws.one_word_reach(scale) * scale)
        dense = range(round(reach - scale), reach)
        assert drawn.issuperset(dense) and not drawn.issuperset(range(reach, round(44 * scale)))


@pytest.mark.parametrize("scale", [0.05, 0.9, 3.0, 2047.0, 2048.0])
def test_laplace_noise_has_every_number_up_to_its_reach(scale):
    """Enumeration of the words that lead to the largest blocks, and of the ends of a block."""
    block = 2 ** max(0, math.floor(math.log2(scale)))
    words, drawn = 4096, set()
    for place in [0.0, 1 - 2.0**-53] if block > 1 else [None]:
        uniforms = [] if place is None else [place] * words
        signs = [0] * (words // 8)
        sizes = draws.discrete_laplace((words,), scale, Scripted([*range(words), *signs], uniforms))
        assert place is None or set((sizes % block).tolist()) == {0 if place == 0 else block - 1}
        drawn |= set((sizes // block).tolist())
    last = math.floor(draws.LAPLACE_REACH * scale / block)
    assert drawn.issuperset(range(min(drawn), last + 1)) and min(drawn) < last


LABELS, VALUES = torch.arange(6) % 3, torch.linspace(-1, 1, 6, dtype=torch.float64)
ADDITIVE = {
    "alibi": (AdditiveLaplace, 30, lambda each, noise: each.release(LABELS, 3, noise)),
    "laplace": (Laplace, 20, lambda each, noise: each.release(VALUES, 1.0, noise)),
    "laplace sums": (
        Laplace, 20, lambda each, noise: each.over(LABELS, 3)(VALUES, 1.0, noise)
    ),
    "clipped_laplace": (
        partial(ClippedLaplace, clip=0.5), 20,
        lambda each, noise: each.release(VALUES, math.inf, noise),
    ),
    "histogram": (LaplaceHistogram, 40, lambda each, noise: each(LABELS, 3, noise)),
} | {
    kind.__name__: (
        kind, most, lambda each, noise: each.over(LABELS, 3)(LABELS, 3, noise)
    )
    for kind, most in ((NoisyClusters, 40), (LocalFull, 27), (ExponentialCubes, 650))
} | {
    kind.__name__: (
        kind, most, lambda each, noise: each.over(LABELS, 3)(VALUES, 1.0, noise)
    )
    for kind, most in ((CubeMeans, 20), (FullCubeMeans, 40))
} | {  # at delta = 1e-5
    kind.__name__: (kind, 20.62, lambda each, noise: each)
    for kind in (NoisyMoments, LabelDPPro, PateFM)
}  # fmt: skip
"""{mechanism: (how it is made, the largest finite eps, how it releases)}."""


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("name", ADDITIVE)
def test_eps_beyond_the_reach_of_additive_noise_is_refused(name, secret):
    # At eps=80 of alibi 2.5 % of outputs excluded the other label, and those of laplace at 40 too.
    kind, most, release = ADDITIVE[name]
    noise = SecretGenerator() if secret else torch.Generator().manual_seed(0)
    for eps in (1.01 * most, 680.0):
        with pytest.raises(InputError, match=rf"eps={eps:g} is .* at most {most:g}, .*smaller eps"):
            release(kind(eps), noise)
    release(kind(0.99 * most), noise)
    release(kind(math.inf), noise)


def test_eps_beyond_the_reach_is_refused_before_a_label_is_read():
    store = LabelStore(LABELS, 3).open(80.0, None)
    for measurement in (
        AdditiveLaplace(80.0), LaplaceHistogram(80.0), NoisyClusters(80.0).over(LABELS, 3)
    ):  # fmt: skip
        with pytest.raises(InputError, match="eps=80 is too large"):
            store.release(measurement)
    assert store.eps_spent == 0 and not store.state_dict()
