"""The comparison of mechanisms and losses: its ranks, its test, and that its table is whole."""

import math

import pandas as pd
import pytest

from labeldp_bench.reports import plotting
from papers.site.comparison import (
    BUDGETS,
    draw,
    losses_of,
    mechanisms_of,
    ranks_of,
    ranks_page,
    read_rows,
    summary,
)


def test_ranks_and_critical_difference_of_a_known_case():
    # Demsar (2006), table 6: 14 data sets, four classifiers, critical difference 1.25 at 5 %.
    scores = pd.DataFrame([[4.0, 3.0, 2.0, 1.0]] * 13 + [[4.0, 4.0, 2.0, 1.0]], columns=[*"abcd"])
    ranks = ranks_of(scores)
    assert ranks.critical["a"] == pytest.approx(1.25, abs=0.005)
    assert ranks["rank"]["d"] == 4 and ranks["rank"]["a"] == pytest.approx(1 + 0.5 / 14)
    assert ranks.p["a"] < 1e-6


def test_seeds_are_averaged_first():
    runs = pd.DataFrame(
        [("a", "rr", "plain", 1.0, seed, 0.5 + seed / 10) for seed in range(3)],
        columns=["dataset", "mechanism", "loss", "eps", "seed", "accuracy"],
    )
    [row] = summary(runs).to_dict("records")
    assert (row["accuracy"], row["std"], row["seeds"]) == (pytest.approx(60), pytest.approx(10), 3)


def test_the_committed_table_has_every_pair():
    # A data set without one method would be dropped, or the method ranked on fewer.
    rows = read_rows()
    classes = {"affairs": 2, "rand_health": 2, "chile": 4, "marriage": 5}
    wanted = {
        (dataset, mechanism, loss, eps)
        for dataset in rows.dataset.unique()
        for mechanism in mechanisms_of(classes.get(dataset, 10))
        for loss in losses_of(mechanism)
        for eps in BUDGETS
    }
    keys = rows[["dataset", "mechanism", "loss", "eps"]]
    assert set(map(tuple, keys.to_numpy())) == wanted and len(keys) == len(wanted)
    ranks = ranks_page()
    assert not ranks.isna().any(axis=None) and math.isfinite(rows.accuracy.sum())
    for _, own in ranks.groupby(["table", "eps"]):
        assert own["rank"].mean() == pytest.approx((len(own) + 1) / 2)
    plotting.plt.close(draw(ranks))
