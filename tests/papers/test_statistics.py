"""Intervals and tests from few runs, against scipy and against wrong variants."""

import math

import numpy as np
import pytest
from scipy import stats

from labeldp_bench.reports.statistics import average, from_seeds, holm, is_significant, score_of
from papers.checks import Gap, judge
from papers.comparisons import against_printed, pooled

ONE = {0: 81.0, 1: 84.5, 2: 79.0, 3: 83.0}
OTHER = {0: 80.1, 1: 83.4, 2: 78.2, 3: 81.9}


def test_an_interval_is_students_and_one_run_has_none():
    # Two standard errors of two seeds cover 70 %, not 95.
    found = from_seeds(ONE)
    low, high = stats.t.interval(
        0.95, 3, loc=np.mean(list(ONE.values())), scale=stats.sem(list(ONE.values()))
    )
    assert found.value - found.half_width == pytest.approx(low)
    assert found.value + found.half_width == pytest.approx(high)
    alone = from_seeds({0: 81.0})
    assert alone.value == 81 and math.isnan(alone.half_width) and math.isnan(alone.p)
    assert math.isnan(from_seeds({}).value)


def test_shared_seeds_are_compared_seed_by_seed_and_others_are_not():
    # The spread of seeds would hide a difference that every seed shows; or be taken away unshared.
    paired = from_seeds(ONE).minus(from_seeds(OTHER))
    assert paired.p == pytest.approx(
        stats.ttest_rel(list(ONE.values()), list(OTHER.values())).pvalue
    )
    apart = from_seeds({seed + 10: value for seed, value in OTHER.items()})
    welch = stats.ttest_ind(list(ONE.values()), list(OTHER.values()), equal_var=False)
    assert from_seeds(ONE).minus(apart).p == pytest.approx(welch.pvalue)
    assert paired.p < 0.01 < 0.3 < welch.pvalue
    # A seed that one side lacks does not count; the mean is over those that are shared.
    part = from_seeds({**dict(list(OTHER.items())[:3]), 7: 0.0})
    shared = [ONE[seed] - OTHER[seed] for seed in list(OTHER)[:3]]
    assert from_seeds(ONE).minus(part).value == pytest.approx(np.mean(shared))
    # Two shared seeds have one degree of freedom, and would drop all others for that.
    two = from_seeds({**dict(list(OTHER.items())[:2]), 7: 80.0, 8: 81.0})
    welch = stats.ttest_ind(list(ONE.values()), list(two.by_seed.values()), equal_var=False)
    assert from_seeds(ONE).minus(two).p == pytest.approx(welch.pvalue)


def test_seeds_that_agree_to_the_last_digit_are_no_certainty():
    # Accuracies of 10,000 images coincide now and then: p would be 0, and pass any correction.
    ours, theirs = {0: 97.31, 1: 97.25, 2: 97.4}, {0: 97.18, 1: 97.12, 2: 97.27}
    pairs = from_seeds(ours).minus(from_seeds(theirs))
    assert len(set(pairs.by_seed.values())) > 1  # 0.13 thrice, but for the last bits
    assert pairs.value == pytest.approx(0.13) and math.isnan(pairs.error) and math.isnan(pairs.p)
    assert judge([Gap("a", pairs)]).word == "undecided"
    alike = from_seeds(pairs.by_seed)
    assert alike.half_width == 0 and math.isnan(alike.p)
    assert not is_significant(holm([alike.p, 0.5])[0])
    assert from_seeds(ours).minus(from_seeds(ours)).p == 1
    assert from_seeds({0: 0.0, 1: 0.0}).p == 1  # no difference at all
    apart = from_seeds({0: 97.31, 1: 97.31}).minus(from_seeds({2: 97.18, 3: 97.18}))  # Welch's
    assert apart.value == pytest.approx(0.13) and math.isnan(apart.p)
    assert judge([Gap("a", apart)]).word == "undecided"


def test_holm_is_stepwise_and_between_bonferroni_and_nothing():
    # By hand: 4 * .01, 3 * .02, max(.06, 2 * .022), max(.06, .5).
    assert holm([0.02, 0.01, 0.5, 0.022]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.04, math.nan])[0] == 0.04 and holm([0.9, 0.8]) == [1, 1]
    assert is_significant(0.049) and not is_significant(0.05) and not is_significant(math.nan)


def test_a_printed_value_is_as_uncertain_as_its_runs_and_the_test_images():
    # Taken as certain, every look-up of a table would be a significant difference.
    ours = from_seeds({0: 96.8, 1: 97.0, 2: 97.2})
    images = 1e4 * 0.96 * 0.04 / 10_000
    for given, runs in (({}, 0.04), ({"spread": 0.3, "runs": 4}, 0.09 / 4)):
        found = against_printed(ours, 96.0, 10_000, **given)
        assert found.value == pytest.approx(1.0)
        assert found.error**2 == pytest.approx(0.04 / 3 + runs + images)
    assert math.isnan(against_printed(from_seeds({0: 97.0}), 96.0, 10_000).p)


def test_methods_that_are_alike_share_one_spread():
    # The one that was chosen for its narrow interval has it by luck: of many, some have.
    lucky, other = from_seeds({0: 97.0, 1: 97.0, 2: 97.03}), from_seeds({0: 96.6, 1: 97.0, 2: 97.5})
    both = pooled([lucky, other, from_seeds({0: 97.0})])
    assert both.freedom == 4
    values = [np.var(list(each.by_seed.values()), ddof=1) for each in (lucky, other)]
    assert both.variance == pytest.approx(np.mean(values))
    found = against_printed(lucky, 96.0, 10_000, both)
    images = 1e4 * 0.96 * 0.04 / 10_000
    assert found.error**2 == pytest.approx(both.variance * (1 / 3 + 1) + images)
    assert found.error > 1.5 * against_printed(lucky, 96.0, 10_000).error
    assert pooled([from_seeds({0: 97.0})]) is None


def test_one_seed_with_trials_has_their_error_and_two_seeds_their_own():
    record = {
        "mechanism": "rr", "accuracy": 0.5, "accuracy_sem": 0.01, "trials": 5, "seed": 0,
        "distribution": 1,
    }  # fmt: skip
    assert average([record], "accuracy").estimate.half_width == pytest.approx(0.01 * 2.776445)
    two = [record, record | {"seed": 1, "accuracy": 0.6}]
    assert average(two, "accuracy").estimate.half_width == pytest.approx(0.05 * 12.706205)


def test_a_release_of_one_label_out_of_one_counts_whole():
    # k=1 in LP-2ST fits every label: counted as a tenth, 89.5 % stood as 82.8.
    old = {"released_agreement": 0.83}
    assert score_of(old | {"mechanism": "lp_2st"}, "response_accuracy") is None
    assert score_of(old | {"mechanism": "alibi"}, "response_accuracy") == 0.83
    new = old | {"mechanism": "lp_2st", "response_accuracy": 0.9}
    assert score_of(new, "response_accuracy") == 0.9
