"""What the papers' text says of a figure: verdicts on pinned records, and the page of them."""

import math

import pytest

from labeldp_bench.reports.statistics import SeedsEstimate
from papers.checks import (
    Gap,
    Statement,
    above,
    compare,
    falls,
    flat,
    flatter,
    highest,
    judge,
    within,
)
from papers.reproduce import ALL
from tests.made_up import figure, records_of, write_pinned

SAME = "made_up/figure7"


def verdict(gaps, records=None, other=None):
    """What the pinned records say of one statement."""
    drawn = figure()
    records = records or records_of(drawn)
    statement = Statement("s", "w", "c", gaps, other=SAME if other else "")
    there = drawn.points(other) if other else None
    return judge(compare(statement, drawn.points(records), drawn.panel_title, there))


HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
R = "rappor"
VERDICTS = [
    (lambda at: above(at, R, ["rr"]), HOLDS, "rappor - rr at 10: +1.00"),
    (lambda at: above(at, R, ["rr", "alibi"]), UNDECIDED, "rappor - alibi at 10: +0.00"),
    (lambda at: above(at, R, ["rr", "alibi"], is_large), HOLDS, "rappor - alibi at 100: +3.00"),
    (lambda at: above(at, "rr", [R]), FAILS, "rr - rappor at 40: -33.20"),
    (lambda at: within(2, at, R, ["rr"], is_small), HOLDS, "2 - gap of rappor and rr at 10: +1.00"),
    (lambda at: within(1, at, R, ["rr"], is_small), UNDECIDED, "1 - gap of rappor and rr at 10: "),
    (lambda at: falls(at, R), HOLDS, "rappor at 10 - at 40: +12.80"),
    (lambda at: falls(at, R, rises=True), FAILS, "rappor at 100 - at 40: -60.20"),
    (lambda at: flat(80, at, R), HOLDS, "80 - gap of rappor between 10 and 100: +7.00"),
    (lambda at: flat(5, at, R), FAILS, "5 - gap of rappor between 10 and 100: -68.00"),
    (lambda at: highest(at, R, 1, 20), HOLDS, "rappor at 10 - at 40: +12.80"),
    (lambda at: highest(at, R, 30, 50), FAILS, "rappor at 40 - at 10: -12.80"),
    (lambda at: flatter(at, R, ["rr"]), HOLDS, "range of rr - rappor: +20.00"),
]


def is_small(k):
    return k <= 10


def is_large(k):
    return k >= 100


@pytest.mark.parametrize(("gaps", "word", "evidence"), VERDICTS)
def test_verdicts_on_pinned_records(gaps, word, evidence):
    found = verdict(gaps)
    assert found.word == word and found.evidence.startswith(evidence)
    assert found.evidence.endswith(" ± 0.78" if "range" in evidence else " ± 0.55")


def test_a_figure_can_be_compared_with_another():
    # Figure 3 would be compared with itself, and "better than before" could never be false.
    before = records_of(figure())
    after = {key: r | {"accuracy": r["accuracy"] - 0.05} for key, r in before.items()}
    there = {name: f"{name} ({SAME})" for name in ("rr", "rappor")}
    for gaps, word in (
        (lambda at: above(at, "rappor", [there["rappor"]]), FAILS),
        (lambda at: flatter(at, "rappor", [there["rr"]]), "holds"),
        (lambda at: flatter(at, "rr", [there["rappor"]]), "does not hold"),
    ):
        assert verdict(gaps, after, before).word == word


@pytest.mark.parametrize("name", ["figure2", "figure3", "figure4"])
def test_a_statement_of_the_paper_fails_when_numbers_are_swapped(name):
    # A check that compares nothing would say "holds" for ever.
    (drawn,) = (one for one in ALL if one.name == f"vector_approximation/{name}")

    def words(**scores):
        record = {"accuracy_sem": 0.001, "eps": 1.0, "trust": "local", "private": True}
        records = {
            cell.config_hash: record
            | {"mechanism": name, "accuracy": {"lp_2st": 0.4, "alibi": 0.5, **scores}.get(name)}
            for cell in drawn.cells
            for name in [cell.identity["mechanism"]]
        }
        found = zip(drawn.statements, drawn.verdicts(drawn.points(records), records), strict=True)
        return {judged.word for one, judged in found if one.check.startswith("rappor > ")}

    assert words(rappor=0.9, rr=0.3) == {HOLDS}
    assert words(rappor=0.3, rr=0.9) == {FAILS}


def test_a_check_that_compares_nothing_is_a_mistake_of_ours():
    # A typing error would read as "undecided" for ever.
    with pytest.raises(KeyError):
        verdict(lambda at: above(at, "rapor", ["rr"]))
    with pytest.raises(AssertionError):
        verdict(lambda at: above(at, "rappor", ["rr"], lambda k: k >= 400))


def test_a_verdict_waits_for_missing_records_and_for_errors():
    surely, unsure = Gap("a", SeedsEstimate(3, 1)), Gap("b", SeedsEstimate(1.5, 1))
    missing, alone = (
        Gap("c", SeedsEstimate(math.nan, math.nan)),
        Gap("d", SeedsEstimate(5, math.nan)),
    )
    assert judge([surely]).word == "holds"
    assert judge([surely, unsure]).word == "undecided"
    assert judge([surely, missing]).word == "undecided"
    assert judge([surely, missing]).evidence == "a: +3.00 ± 1.96; 1 of 2 comparisons lack records"
    assert judge([alone]).word == "undecided"
    assert judge([missing]).word == "no data"
    # What is false stays so, whatever is missing.
    assert judge([Gap("e", SeedsEstimate(-9, 1)), missing]).word == "does not hold"


def test_many_comparisons_need_a_clearer_failure():
    # Of a hundred true comparisons, five would be called false at two standard errors.
    gap = Gap("a", SeedsEstimate(-2.5, 1))
    assert judge([gap]).word == "does not hold"
    assert judge([gap, *[Gap("b", SeedsEstimate(9, 1))] * 99]).word == "undecided"


def test_the_best_of_several_needs_a_clearer_success():
    # The highest of five that are all alike is above the sixth more often than one of them.
    gap = Gap("a", SeedsEstimate(2.2, 1))
    assert judge([gap]).word == "holds"
    assert judge([gap._replace(chosen_from=5)]).word == "undecided"
    assert judge([Gap("a", SeedsEstimate(2.7, 1), chosen_from=5)]).word == "holds"


def test_a_zero_error_is_certain_and_a_zero_gap_is_not():
    assert judge([Gap("a", SeedsEstimate(1, 0))]).word == "holds"
    assert judge([Gap("a", SeedsEstimate(0, 0))]).word == "undecided"


PAGE = """\
# made_up, figure 7

![Circle, eps=1](made_up_figure7.png)

Circle, eps=1. Figure 7 of made_up from our own records. Bands: 95 % t intervals over seeds, or over the trials of one seed.

test accuracy, %:

| test accuracy, %   | K=10         | K=40         | K=100        |
|:-------------------|:-------------|:-------------|:-------------|
| no privacy         | 99.00 ± 0.39 | 88.00 ± 0.39 | 46.00 ± 0.39 |
| RR                 | 98.00 ± 0.39 | 53.00 ± 0.39 | 5.00 ± 0.39  |
| ALIBI              | 99.00 ± 0.39 | 86.00 ± 0.39 | 23.00 ± 0.39 |
| RAPPOR             | 99.00 ± 0.39 | 86.20 ± 0.39 | 26.00 ± 0.39 |
| Bayes limit        | 99.50        | 88.34        | 47.01        |

±: half the width of the 95 % t interval over seeds; of one seed with trials, over its trials. One run alone has none.

## What the paper says of it

| statement     | where     | check                  | ours              | speaks most against it (at K)                       |
|:--------------|:----------|:-----------------------|:------------------|:----------------------------------------------------|
| More than RR. | section 1 | `rappor > rr`          | **holds**         | rappor - rr at 10: +1.00 ± 0.55                     |
| Stable.       | section 2 | `rappor flat within 5` | **does not hold** | 5 - gap of rappor between 10 and 100: -68.00 ± 0.55 |

Statements are in our words. A figure has no printed values to compare with, so each statement is
checked on our records: it *holds* if every comparison is true by a one-sided t test at 2.5 %, *does
not hold* if one is false by the same test after Holm's correction for their number, and is
*undecided* otherwise. Seeds that two methods share are compared seed by seed. Where a check needs
a number that the paper does not give, such as from which K on there are many classes, the number
is ours. The last column is the comparison that speaks most against the statement.

12 of 12 cells done
"""  # noqa: E501


def test_the_page_of_pinned_records(tmp_path):
    # What a reader sees, to the letter; look at it before changing it here.
    write_pinned(tmp_path)
    assert (tmp_path / "made_up_figure7.md").read_text() == PAGE
