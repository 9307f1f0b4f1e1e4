"""Plans: monotone, consistent with their inverse, and as good on unseen data as they say."""

import math

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from benchmarks.plan_tables import TABLES, calibrating, unseen
from labeldp.experience import expected_accuracies, range_of
from labeldp.redundancy import redundancy
from labeldp.support.validate import InputError
from tests.conftest import CHECKOUT

ENDS = ["accuracy_low", "accuracy_middle", "accuracy_high"]
SMALL = 2e-3  # how much an effective label is worth is measured on made-up labels


@pytest.mark.parametrize("classes", [2, 5])
def test_more_eps_means_more_accuracy(classes):
    found = [ldp.plan(2000, classes, eps=eps) for eps in (0.05, 0.2, 0.5, 1, 2, 4, 8, math.inf)]
    accuracies = np.array([[getattr(each, end) for end in ENDS] for each in found])
    assert (np.diff(accuracies, axis=0) > -SMALL).all()
    assert (np.diff(accuracies, axis=1) >= 0).all()
    assert ((accuracies >= 1 / classes) & (accuracies <= 1)).all()
    assert found[-1].mechanism == "none"


@pytest.mark.parametrize(
    ("rows", "classes", "shares", "accuracy"),
    [(2000, 2, None, 0.7), (5000, 3, [0.6, 0.3, 0.1], 0.68)],
)
def test_the_inverse_is_the_smallest_eps_that_reaches_the_accuracy(rows, classes, shares, accuracy):
    found = ldp.plan(rows, classes, accuracy=accuracy, class_shares=shares)
    again = ldp.plan(rows, classes, eps=found.eps, class_shares=shares)
    assert again.accuracy_middle == found.accuracy_middle
    assert accuracy <= again.accuracy_middle < accuracy + 2 * SMALL
    below = ldp.plan(rows, classes, eps=0.95 * found.eps, class_shares=shares)
    assert below.accuracy_middle < accuracy


def test_an_accuracy_that_needs_nothing_or_too_much():
    with pytest.raises(InputError, match="either eps or accuracy"):
        ldp.plan(num_rows=10, num_classes=2)
    with pytest.raises(InputError, match="no eps reaches"):
        ldp.plan(num_rows=100, num_classes=2, accuracy=0.999)
    with pytest.raises(InputError, match=r"accuracy must be > 0.5, what guessing reaches"):
        ldp.plan(num_rows=100, num_classes=2, accuracy=0.4)
    with pytest.raises(InputError, match=r"num_classes must be in \[2, 10000\], got 100000000"):
        ldp.plan(num_rows=100, num_classes=10**8, eps=1)  # it never ended
    with pytest.raises(InputError, match="2 shares > 0 with sum 1"):
        ldp.plan(num_rows=100, num_classes=2, eps=1, class_shares=[0.9, 0.2])
    for shares in (0.5, ["a", "b"], {"a": 0.5, "b": 0.5}):
        with pytest.raises(InputError, match="class_shares must be 2 numbers, got"):
            ldp.plan(num_rows=100, num_classes=2, eps=1, class_shares=shares)


def test_an_accuracy_that_few_data_sets_reach_has_the_eps_beyond_which_little_is_gained():
    # The smallest eps at which the upper end reaches it would be far too small for most.
    with pytest.warns(UserWarning, match=r"half of the real data sets stay below 0\.6"):
        found = ldp.plan(num_rows=20_000, num_classes=5, accuracy=0.8)
    assert found.accuracy_middle < 0.8 < found.accuracy_high
    best = ldp.plan(num_rows=20_000, num_classes=5, eps=20.0)
    assert 0.008 < best.accuracy_middle - found.accuracy_middle < 0.012


def test_what_is_known_makes_the_range_narrower():
    blind = ldp.plan(5000, 2, eps=1)
    with_shares = ldp.plan(5000, 2, eps=1, class_shares=[0.9, 0.1])
    assert with_shares.accuracy_low > blind.accuracy_low + 0.1
    assert with_shares.accuracy_high > 0.9
    assert blind.table.bits_per_label.is_monotonic_decreasing


def test_columns_that_say_much_of_each_other_promise_more():
    stream = np.random.default_rng(0)
    hidden = stream.normal(size=(600, 1))
    alike, apart = hidden + 0.2 * stream.normal(size=(600, 6)), stream.normal(size=(600, 6))
    assert redundancy(alike) > 0.7 > 0.15 > abs(redundancy(apart))
    assert redundancy(1e6 * alike - 3) == pytest.approx(redundancy(alike), abs=0.01)
    assert redundancy(alike[:, :1]) is None
    high, low = (ldp.plan(600, 2, eps=1, class_shares=[0.5, 0.5], X=X) for X in (alike, apart))
    assert high.accuracy_middle > low.accuracy_middle + 0.03
    alone = ldp.plan(600, 2, eps=1, X=alike[:, :1])
    assert alone.accuracy_low == ldp.plan(600, 2, eps=1).accuracy_low
    with pytest.raises(InputError, match="without missing ones"):
        ldp.plan(600, 2, eps=1, X=np.full((50, 2), np.nan))
    with pytest.raises(InputError, match="at least 20 rows"):
        ldp.plan(600, 2, eps=1, X=alike[:3])


def test_the_curve_of_a_data_set():
    one = pd.DataFrame(
        {"task": ["a"], "uneven": [0.2], "ceiling": [0.5], "labels": [10.0], "redundancy": [0.4]}
    )
    # Half of the way from 1/2 to its ceiling .5 + .5 (.2 + .8 * .5) = .8 with 10 labels a class.
    for labels, accuracy in ((0, 0.5), (10, 0.65), (1e12, 0.8)):
        assert expected_accuracies(labels, 2, tasks=one) == pytest.approx([accuracy])
    assert expected_accuracies(1e12, 2, [0.9, 0.1], tasks=one) == pytest.approx([0.95])
    assert range_of(np.linspace(0, 1, 41)) == pytest.approx((0.05, 0.5, 0.95))


def test_the_committed_check_is_of_unseen_data_and_holds():
    assert not set(calibrating()) & set(unseen())
    assert len(calibrating()) + len(unseen()) == len(TABLES)
    known = pd.read_csv(CHECKOUT / "labeldp" / "plan_tasks.csv")
    tables = known.task[~known.task.str.startswith("records: ")]
    assert tables.tolist() == calibrating()
    found = pd.read_csv(CHECKOUT / "results" / "benchmarks" / "plan.csv")
    assert not set(found.task) & set(known.task)
    assert set(found.task[found.source == "r"]) == set(unseen())
    shown, tables = (found[found.source == name] for name in ("scikit_learn", "r"))
    assert len(shown) == 20 and shown.inside.sum() >= 16
    for kind in ("", "_with_features", "_with_shares", "_with_both"):
        assert tables["inside" + kind].mean() >= 0.89  # nominal .9, of 78
        wide = (tables["high" + kind] - tables["low" + kind]) / (1 - 1 / tables.classes)
        assert wide.mean() < 0.75  # 1 would say nothing
