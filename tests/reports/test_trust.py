"""Local against central: where the lines cross, and what releases tell."""

import math

import pandas as pd
import pytest

from labeldp_bench.mechanisms import SubsetSelection
from labeldp_bench.mechanisms.information import information_bits
from labeldp_bench.reports.figures.kinds.trust import budgets, crossing
from labeldp_bench.reports.figures.paper import load_figure


def rows_of(local, central):
    rows = [
        {"x": x, "y": y, "records": [{"trust": trust}]}
        for trust, values in (("local", local), ("central", central))
        for x, y in values.items()
    ]
    return pd.DataFrame(rows)


def test_lines_cross_where_their_best_means_meet_on_a_log_axis():
    # Halfway between 0.1 and 1 on the axis; budgets that only one side has do not count.
    local = {0.1: 60.0, 1.0: 90.0, 4.0: 99.0}
    assert crossing(rows_of(local, {0.01: 70.0, 0.1: 70.0, 1.0: 80.0})) == pytest.approx(
        math.sqrt(0.1)
    )
    assert crossing(rows_of(local, {0.1: 50.0, 1.0: 80.0})) == 0.1
    assert math.isnan(crossing(rows_of(local, {0.1: 70.0, 1.0: 95.0})))
    assert math.isnan(crossing(rows_of(local, {})))


def test_information_is_that_of_the_mechanism_times_the_labels_and_local_alone():
    drawn = load_figure("mechanisms/local_and_central")
    trusts = {"noisy_moments": "central", "noisy_clusters": "central"}
    known = {
        cell.config_hash: {
            "trust": trusts.get(cell.identity["mechanism"], "local"), "accuracy": 0.5,
            "mechanism": cell.identity["mechanism"], "n_train": 60_000, "private": True,
            "seed": cell.seed,
        }
        for cell in drawn.cells
    }  # fmt: skip
    points = drawn.points(known)
    told = budgets(points)
    assert set(told.mechanism) == {"subset_selection"}
    (half,) = set(told[told.x == 0.5]["all"])
    assert half == pytest.approx(60_000 * information_bits(SubsetSelection(0.5), 10))
    assert told.most.iloc[0] == pytest.approx(60_000 * math.log2(10))
