"""Local against central: where the lines cross, and the tests of their differences."""

import math

import pandas as pd
import pytest
from scipy import stats

from labeldp_bench.reports.statistics import from_seeds
from papers.site.curator import crossing, worth


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


def test_what_a_curator_is_worth_is_compared_by_seed_and_corrected():
    # The page's p values were worked out by hand, so that new records made them stale.
    def point(panel, x, trust, *values):
        estimate = from_seeds(dict(enumerate(values)))
        records = [{"trust": trust}]
        return {"panel": panel, "x": x, "y": estimate.value, "estimate": estimate,
                "records": records}  # fmt: skip

    rows = [
        point("a", 1, "central", 90.0, 92.0, 94.0), point("a", 1, "central", 10.0, 10.0, 11.0),
        point("a", 1, "local", 80.0, 81.0, 85.0), point("a", 1, "local", 70.0, 70.0, 71.0),
        point("b", 1, "central", 50.0, 51.0), point("b", 1, "local", 60.0, 60.0),
        point("b", 2, "local", 60.0, 60.0), point("b", math.nan, "central", 99.0, 99.0),
    ]  # fmt: skip
    both, alone = worth(pd.DataFrame(rows)).to_dict("records")
    assert (both["central"].value, both["local"].value) == (92, 82)
    gap = stats.ttest_1samp([10, 11, 9], 0)  # seed by seed
    assert both["gap"].value == pytest.approx(10)
    assert both["p"] == pytest.approx(2 * 4 * gap.pvalue)  # of two families, of four pairs of lines
    assert (alone["panel"], alone["x"], alone["gap"].value) == ("b", 1, pytest.approx(-9.5))
    assert alone["p"] == pytest.approx(stats.ttest_1samp([-10, -9], 0).pvalue)
    # One run on either side is no test: it stood there as p=1, and made the family larger.
    rows += [point("c", 1, "central", 50.0), point("c", 1, "local", 60.0)]
    *same, single = worth(pd.DataFrame(rows)).to_dict("records")
    assert math.isnan(single["p"]) and [row["p"] for row in same] == [both["p"], alone["p"]]
