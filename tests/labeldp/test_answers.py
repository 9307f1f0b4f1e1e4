"""Answers from releases alone: right in the mean, and intervals that hold as often as they say."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import labeldp as ldp
from labeldp.estimates import possible_values, share_with_interval, unbiased_labels
from labeldp.named_mechanisms import CLASS_MECHANISMS


class Constant:
    """Says the same class for every row."""

    def __init__(self, name):
        self.name = name

    def predict(self, X):
        return np.array([self.name] * len(X))


def test_intervals_hold_as_often_as_they_say():
    # The small version of results/benchmarks/coverage.csv; at half the width it would be 67 %.
    hits = shares = 0
    warnings.simplefilter("ignore")
    for seed in range(100):
        labels = (np.random.default_rng(seed).random(300) < 0.3).astype(int)
        release = ldp.privatize(labels, classes=[0, 1], eps=1.0, mechanism="rr", seed=seed)
        found = ldp.estimate_accuracy(Constant(1), labels, release)
        hits += found.low <= 0.3 <= found.high
        share = ldp.class_shares(release)[1]
        shares += share.low <= 0.3 <= share.high
    for count in (hits, shares):
        assert binomtest(count, 100, 0.95).pvalue > 1e-3
        assert binomtest(count, 100, 0.67).pvalue < 1e-4


def test_rows_of_one_person_count_as_one_person():
    # Eight rows of each of 40 people are alike; counted as 320 people the interval holds 0.3 in
    # half of the draws.
    whose = np.repeat(np.arange(40), 8)
    kept = rowwise = 0
    for seed in range(100):
        labels = (np.random.default_rng(seed).random(40) < 0.3).astype(int)[whose]
        release = ldp.privatize(labels, classes=[0, 1], eps=3.0, mechanism="rr", seed=seed)
        for found in (
            ldp.class_shares(release, persons=whose)[1],
            ldp.estimate_accuracy(Constant(1), labels, release, persons=[f"p{n}" for n in whose]),
        ):
            kept += found.low <= 0.3 <= found.high
        rows = ldp.class_shares(release)[1]
        rowwise += rows.low <= 0.3 <= rows.high
    assert 178 <= kept <= 200  # two estimates of each draw
    assert rowwise < 75


def test_persons_of_one_row_each_change_nothing_and_one_person_tells_nothing():
    release = ldp.privatize([0, 1] * 20, classes=[0, 1], eps=2.0, mechanism="rr", seed=0)
    alone = ldp.class_shares(release, persons=np.arange(40))
    assert alone == ldp.class_shares(release)
    one = ldp.class_shares(release, persons=["Ann"] * 40)[1]
    assert (one.low, one.high) == (0, 1)


def test_without_noise_the_interval_is_the_exact_one():
    found = share_with_interval(np.array([1.0] * 45 + [0.0] * 5), (0.0, 1.0))
    exact = binomtest(45, 50).proportion_ci(0.95, method="exact")
    assert (found.value, found.low, found.high) == pytest.approx((0.9, exact.low, exact.high))
    ones = share_with_interval(np.ones(50), (0.0, 1.0))
    assert ones.low == pytest.approx(0.025 ** (1 / 50)) and ones.high == 1


def released(name, labels, classes, eps, seed=0):
    warnings.simplefilter("ignore")
    return ldp.privatize(labels, classes=range(classes), eps=eps, mechanism=name, seed=seed)


def test_a_class_that_was_never_released_has_the_exact_interval():
    # The other value was guessed as 1 - a, which holds for two classes: 0.134 in place of 0.204.
    releases = (released("rr", np.zeros(20, dtype=int), 10, 3.0, seed) for seed in range(50))
    release = next(each for each in releases if 9 not in each.outputs)
    found = ldp.class_shares(release)[9]
    # The exact interval ends at 0.204; its part in [0, 1] is that of a likelihood ratio.
    assert (found.value, found.low) == (0, 0) and 0.204 < found.high < 0.215


@pytest.mark.parametrize("name", ["rr", "rappor", "optimal"])
@pytest.mark.parametrize("eps", [0.5, 3.0])
def test_few_rows_are_covered_as_often_as_many(name, eps):
    # The probability of each count is known, so the coverage is too: it was 0.925 for rr at 0.14.
    low, high = possible_values(released(name, [0], 10, eps))
    counts = np.arange(21)
    intervals = [share_with_interval(np.repeat([low, high], [20 - ones, ones]), (low, high))
                 for ones in counts]  # fmt: skip
    for share in (0.0, 0.02, 0.14, 0.2, 0.5, 0.9, 1.0):
        chance = binom.pmf(counts, 20, (share - low) / (high - low))
        held = [found.low <= share <= found.high for found in intervals]
        assert chance[held].sum() >= 0.95


TWO_VALUED = "hadamard local_hashing lp_1st none optimal oue rappor rr subset_selection unary"
"""Those of ours that treat all classes alike; one that somebody adds need not."""


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("name", CLASS_MECHANISMS)
def test_estimates_take_the_values_that_the_law_allows(name, classes):
    # A value that is not foreseen would put an interval anywhere.
    eps = math.inf if name == "none" else 1.0
    release = released(name, np.arange(2000) % classes, classes, eps)
    values = possible_values(release)
    if name == "alibi":
        assert values is None
        return
    assert len(values) == 2 or name not in TWO_VALUED.split()
    found = unbiased_labels(release)
    assert np.abs(found[..., None] - np.array(values)).min(-1).max() < 1e-9


def test_estimates_that_are_all_alike_are_not_certain():
    # Zero spread gave the t law an interval without width; one row gave it NaN.
    found = share_with_interval(np.zeros(20), (-0.5, 0.0, 1.5))
    assert found.high > 0.5
    one = share_with_interval(np.array([0.3]), None)
    assert (one.low, one.high) == (0, 1)
    # Two draws from a continuum are no coin.
    two = share_with_interval(np.array([0.4, 0.41]), None)
    assert (two.low, two.high) == pytest.approx((0.405 - 0.0635, 0.405 + 0.0635), abs=1e-4)


@pytest.mark.parametrize("name", ["rr", "rappor", "alibi", "hadamard"])
def test_a_share_of_zero_has_an_interval_and_shares_sum_to_one(name):
    # 0.000 (0.000 to 0.000): the interval before it was cut was below 0 as a whole.
    held = []
    for seed in range(40):
        labels = np.random.default_rng(seed).integers(0, 2, 300)
        given = {"classes": [0, 1, 2, 3], "eps": 2.0, "mechanism": name, "seed": seed}
        shares = ldp.class_shares(ldp.privatize(labels, **given))
        assert sum(each.value for each in shares.values()) == pytest.approx(1)
        assert all(0 <= each.low <= each.value <= each.high <= 1 for each in shares.values())
        assert all(each.high - each.low > 1e-3 for each in shares.values())
        held += [each.low <= true <= each.high for each, true in
                 zip(shares.values(), (0.5, 0.5, 0, 0), strict=True)]  # fmt: skip
    assert np.mean(held) >= 0.93


def test_releases_of_another_mechanism_than_the_manifest_says_are_told():
    release = ldp.privatize([0, 1] * 500, classes=[0, 1, 2], eps=1.0, mechanism="rr", seed=0)
    release.messages[:] = 0  # nobody's randomised response at eps=1
    with pytest.warns(UserWarning, match="do not look like the output"):
        shares = ldp.class_shares(release)
    assert shares[1].value == 0 < shares[1].high
