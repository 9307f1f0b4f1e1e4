"""Plans: monotone, sorted, and garbage refused."""

import math

import numpy as np
import pytest

import labeldp as ldp
from labeldp.support.validate import InputError


@pytest.mark.parametrize("classes", [2, 5])
def test_more_eps_tells_more(classes):
    found = [ldp.plan(2000, classes, eps=eps) for eps in (0.05, 0.2, 0.5, 1, 2, 4, 8, math.inf)]
    best = [each.table.set_index("mechanism").loc[each.mechanism] for each in found]
    bits = np.array([each.bits_per_label for each in best])
    assert (np.diff(bits) > 0).all() and bits[-1] == pytest.approx(math.log2(classes))
    assert found[-1].mechanism == "none" and best[-1].effective_labels == 2000
    assert all(each.table.bits_per_label.is_monotonic_decreasing for each in found)
    assert all((each.table.effective_labels <= 2000 + 1e-6).all() for each in found)


@pytest.mark.parametrize("eps", [35, 80, 700])
@pytest.mark.parametrize("classes", [2, 5, 20])
def test_a_large_eps_has_the_mechanisms_that_can_still_be_drawn(classes, eps):
    names = [f"c{each}" for each in range(classes)]
    plan = ldp.plan(2000, classes, eps=eps)
    for name in {*plan.table.mechanism, "auto"}:
        release = ldp.privatize(names, names, eps, name, ledger=ldp.Ledger())
        assert name in (release.mechanism, "auto")
    assert "alibi" not in set(plan.table.mechanism)
    with pytest.raises(InputError, match=f"eps={eps} is too large .* at most 20"):
        ldp.privatize([0.5], bounds=(0, 1), eps=eps)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"num_classes": 10**8}, "num_classes"),
        ({"num_rows": 0}, "num_rows"),
        ({"eps": 0}, "eps"),
        ({"class_shares": [0.9, 0.2]}, "class_shares"),
        ({"class_shares": 0.5}, "class_shares"),
        ({"class_shares": ["a", "b"]}, "class_shares"),
        ({"class_shares": {"a": 0.5, "b": 0.5}}, "class_shares"),
    ],
)
def test_a_wrong_value_is_named(changed, named):
    with pytest.raises(InputError, match=named):
        ldp.plan(**{"num_rows": 100, "num_classes": 2, "eps": 1} | changed)


def test_a_plan_of_ordered_classes_counts_distances():
    # Of unordered classes no distance counts; few ordered ones are guessed better from `rr`.
    assert "ordinal" not in set(ldp.plan(2000, 10, 1.0).table.mechanism)
    plan, few = (ldp.plan(2000, count, 1.0, ordinal=True) for count in (10, 5))
    off = plan.table.set_index("mechanism").absolute_error
    assert (plan.mechanism, few.mechanism) == ("ordinal", "rr")
    assert off.is_monotonic_increasing and "ordinal" in plan.text()
    # By hand: two thirds without a release; of three classes at eps=log(4) the guess is the answer
    # at an end, else the middle.
    three = ldp.plan(2000, 3, math.log(4), ordinal=True).table.set_index("mechanism")
    rows = np.array([[4, 2, 1], [1.5, 3, 1.5], [1, 2, 4]])
    joint = rows / rows.sum(1, keepdims=True) / 3
    error = (joint * abs(np.arange(3)[:, None] - np.arange(3))).sum()
    assert three.absolute_error["ordinal"] == pytest.approx(error)
    assert ldp.plan(2000, 3, 0.1, ordinal=True).mechanism == "rr"  # no release changes the guess
    with pytest.raises(InputError, match="1000"):
        ldp.plan(2000, 1001, 1.0, ordinal=True)
