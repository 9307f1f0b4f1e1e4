"""The comparison of losses on tables: paired by seed, corrected after Holm."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from papers.site.rare_events import comparisons, scores_by_seed


def points(shift=0.02, seeds=6):
    random = np.random.default_rng(0)
    easy = random.normal(0, 0.05, seeds)  # a seed's split moves all losses alike
    rows = []
    lines = [("plain", 0, 1.0), ("unbiased", 0.05, 1.0), ("marginal", 0.05 + shift, 1.0)]
    for loss, lift, x in [*lines, ("plain", 0.1, np.nan)]:
        noise = random.normal(0, 0.002, seeds)
        mechanism = "rr" if x == 1 else "none"
        records = [
            {"model": "logistic", "mechanism": mechanism, "loss": loss, "seed": seed,
             "auc": 0.8 + lift + easy[seed] + noise[seed]}
            for seed in range(seeds)
        ]  # fmt: skip
        rows.append({"panel": "t", "x": x, "records": records})
    return pd.DataFrame(rows)


def test_losses_are_compared_seed_by_seed():
    # Welch's test would see nothing: the splits differ by more than the losses.
    table = scores_by_seed(points(), ("auc",))
    (row,) = comparisons(table, "auc").to_dict("records")
    values = table[table.x == 1].pivot(index="seed", columns="loss", values="auc")
    assert row["p"] == pytest.approx(stats.ttest_rel(values.marginal, values.unbiased).pvalue)
    assert row["p"] < 0.001 < stats.ttest_ind(values.marginal, values.unbiased).pvalue
    assert row["difference"] == pytest.approx(0.02, abs=0.005)
    assert row["none"] > row["marginal"] > row["unbiased"] > row["plain"]


def test_p_values_are_corrected_for_their_number():
    one = points().assign(panel="one")
    both = pd.concat([one, points(0.0).assign(panel="two")])
    alone, first = (comparisons(scores_by_seed(p, ("auc",)), "auc").p[0] for p in (one, both))
    assert first == pytest.approx(2 * alone)


def test_without_records_there_is_no_comparison():
    empty = points().assign(records=[[]] * 4)
    assert comparisons(scores_by_seed(empty, ("auc",)), "auc").empty
