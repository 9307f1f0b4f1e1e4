"""The comparison of mechanisms and losses: its ranks, its test, and that its table is whole."""

import math

import pandas as pd
import pytest

from labeldp_bench.reports import plotting
from papers.site.comparison import (
    BUDGETS,
    by_loss,
    by_mechanism,
    draw,
    losses_of,
    mechanisms_of,
    ranks_of,
    read_rows,
    summary,
)


def test_ranks_and_critical_difference_of_a_known_case():
    # Demsar (2006), table 6: 14 data sets, four classifiers, critical difference 1.25 at 5 %.
    scores = pd.DataFrame([[4.0, 3.0, 2.0, 1.0]] * 13 + [[4.0, 4.0, 2.0, 1.0]], columns=[*"abcd"])
    ranks = ranks_of(scores)
    assert ranks.critical == pytest.approx(1.25, abs=0.005)
    assert ranks.means["d"] == 4 and ranks.means["a"] == pytest.approx(1 + 0.5 / 14)
    assert ranks.p < 1e-6


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
    for table in (table_of(rows, eps) for table_of in (by_mechanism, by_loss) for eps in BUDGETS):
        assert not table.isna().any(axis=None)
        assert ranks_of(table).means.mean() == pytest.approx((table.shape[1] + 1) / 2)
    assert math.isfinite(rows.accuracy.sum())
    plotting.plt.close(draw(rows))


def test_the_picture_says_what_the_table_has():
    # The title and docs/mechanisms.md would stay as they are when the table is written again.
    rows = read_rows()
    behind = {0.5: set(), 1.0: {"hadamard"}, 2.0: {"hadamard", "alibi"}}
    for eps in BUDGETS:
        ranks = ranks_of(by_mechanism(rows, eps))
        assert ranks.means.index[0] == "subset_selection"
        gaps = ranks.means - ranks.means.iloc[0]
        assert set(gaps.index[gaps > ranks.critical]) == behind[eps]
        losses = ranks_of(by_loss(rows, eps))
        assert losses.p > 0.05 and losses.means.max() - losses.means.min() < losses.critical
