"""The table of methods that lose a class: what counts as lost, and which runs are pooled."""

import pytest

from labeldp_bench.reports.rendering import markdown_of
from papers.site.lost_classes import parts_of, rows_of


def runs(least, seeds=5, classes=10, **values):
    """Records of one method, one per accuracy of its worst class."""
    found = {}
    for seed, lowest in enumerate(least[:seeds]):
        identity = {"mechanism": "rr", "seed": seed, **values.get("own", {})}
        found[f"{seed} {values}"] = {
            "dataset": "mnist", "mechanism": "rr", "loss": "plain", "model": "eigenmaps",
            "eps": 0.2, "seed": seed, "budget": "paper", "pretrain": "simclr", "private": True,
            "accuracy": 0.9 + lowest / 10, "distribution": 1, "identity": identity,
            "per_class_accuracy": [lowest, *[0.95] * (classes - 1)],
        } | {key: value for key, value in values.items() if key != "own"}  # fmt: skip
    return found


def test_median_worst_and_share_of_seeds_that_lose_a_class():
    # The mean, 95.6, is of no seed, and says nothing of a digit that is gone.
    [row] = rows_of(runs([0.9, 0.9, 0.9, 0.0, 0.1])).to_dict("records")
    assert row["lost"] == pytest.approx(0.2)  # 10 % of a class is twice 5 %
    assert (row["median"], row["worst"]) == pytest.approx((99, 90))
    page = markdown_of(parts_of(rows_of(runs([0.9, 0.9, 0.9, 0.0, 0.1]))))
    assert "1 of 5" in page and "99.0" in page


def test_lost_is_relative_to_chance_and_other_settings_are_other_rows():
    fine = rows_of(runs([0.03] * 5, classes=100))
    assert fine.lost.tolist() == [0]
    own = {"own": {"model.functions": [1, 2]}}
    both = rows_of(runs([0.9] * 5) | runs([0.0] * 5, **own))
    assert sorted(both.lost) == [0, 1]


def test_few_seeds_few_classes_and_runs_without_privacy_are_left_out():
    one = runs([0.9] * 5, eps=1.0, own={"eps": 1})
    assert len(rows_of(one | runs([0.0] * 4, seeds=4, own={"few": 1}))) == 1
    assert len(rows_of(one | runs([0.0] * 5, classes=2, own={"binary": 1}))) == 1
    assert len(rows_of(one | runs([0.0] * 5, private=False, own={"none": 1}))) == 1
