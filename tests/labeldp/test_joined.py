"""What rows of joined releases have spent: never less than the truth."""

import pytest

import labeldp as ldp


def test_parts_of_one_release_count_once_and_joined_ones_are_never_too_little():
    given = {"classes": ["yes", "no"], "eps": 1.0, "seed": 0}
    first = ldp.privatize(["yes"] * 4, row_ids=range(4), **given)
    both = ldp.Release.joined([first[:2], first[2:]])
    again = ldp.privatize(["yes"] * 4, row_ids=range(4), after=[first, both, first[1:]], **given)
    assert again.eps_spent == 2
    other = ldp.privatize(["yes"] * 4, row_ids=range(4, 8), **given)
    whole = ldp.Release.joined([first, other])
    with pytest.warns(UserWarning, match="does not say which earlier releases"):
        again = ldp.privatize(["yes"] * 8, row_ids=range(8), after=[first, whole], **given)
    assert again.eps_spent == 3  # at least 2


def test_joined_releases_of_persons_count_all_of_them():
    # Two rows of one person in each of two releases: eps twice, and it said once.
    given = {"classes": ["yes", "no"], "eps": 1.0, "seed": 0, "unit_name": "who", "most_rows": 2}
    first = ldp.privatize(["yes"] * 4, unit=[1, 1, 2, 2], row_ids=range(4), **given)
    other = ldp.privatize(["yes"] * 4, unit=[1, 1, 3, 3], row_ids=range(4, 8), **given)
    with pytest.warns(UserWarning, match="do not say whose rows they hold"):
        whole = ldp.Release.joined([first[:2], other, first[2:]])
    assert whole.spent.tolist() == [2] * 8
    assert ldp.Release.joined([first[:2], first[2:]]).eps_spent == 1
    persons = [1, 1, 2, 2, 1, 1, 3, 3]
    again = ldp.privatize(["yes"] * 8, unit=persons, row_ids=range(8), after=whole, **given)
    assert again.eps_spent == 3
