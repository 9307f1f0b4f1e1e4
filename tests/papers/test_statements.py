"""What the papers' text says of a figure: verdicts on pinned records, and the page of them."""

import math

import pytest

from labeldp.support.validate import InputError
from labeldp_bench.reports.statistics import SeedsEstimate
from papers.figures.paper import PaperFigure
from papers.statements.check import read_check
from papers.statements.relations import RELATIONS, Gap
from papers.statements.verdict import judge
from tests.made_up import figure, records_of, write_pinned


def verdict(check, **changed):
    """What the pinned records say of one check."""
    drawn = figure([{"says": "s", "where": "w", "check": check} | changed])
    records = records_of(drawn)
    (found,) = drawn.verdicts(drawn.points(records), records)
    return found


VERDICTS = {
    "rappor > rr": ("holds", "rappor - rr at 10: +1.00 ± 0.55"),
    "rappor > rr, alibi": ("undecided", "rappor - alibi at 10: +0.00 ± 0.55"),
    "rappor > rr, alibi for K >= 100": ("holds", "rappor - alibi at 100: +3.00 ± 0.55"),
    "rappor > alibi + 4 for K = 100": ("does not hold", "rappor - alibi at 100: -1.00 ± 0.55"),
    "rr > rappor": ("does not hold", "rr - rappor at 40: -33.20 ± 0.55"),
    "rappor within 2 of rr, alibi for K <= 10": (
        "holds", "2 - gap of rappor and rr at 10: +1.00 ± 0.55"),
    "rappor within 1 of rr for K <= 10": (
        "undecided", "1 - gap of rappor and rr at 10: +0.00 ± 0.55"),
    "rappor falls": ("holds", "rappor at 10 - at 40: +12.80 ± 0.55"),
    "rappor rises": ("does not hold", "rappor at 100 - at 40: -60.20 ± 0.55"),
    "rappor flat within 80": ("holds", "80 - gap of rappor between 10 and 100: +7.00 ± 0.55"),
    "rappor flat within 5": (
        "does not hold", "5 - gap of rappor between 10 and 100: -68.00 ± 0.55"),
    "rappor highest between 1 and 20": ("holds", "rappor at 10 - at 40: +12.80 ± 0.55"),
    "rappor highest between 30 and 50": (
        "does not hold", "rappor at 40 - at 10: -12.80 ± 0.55"),
}  # fmt: skip


@pytest.mark.parametrize("check", VERDICTS)
def test_verdicts_on_pinned_records(check):
    found = verdict(check)
    assert (found.word, found.evidence) == VERDICTS[check]


def test_every_relation_has_a_pinned_verdict():
    read = {read_check(check, "K").relation for check in VERDICTS}
    assert read | {"flatter"} == set(RELATIONS)


def test_a_figure_can_be_compared_with_another(monkeypatch):
    # Figure 3 would be compared with itself, and "better than before" could never be false.
    drawn = figure([
        {"says": "", "where": "", "check": "rappor, rr > the same in made_up/figure7"},
        {"says": "", "where": "", "check": "rappor flatter than rr in made_up/figure7"},
        {"says": "", "where": "", "check": "rr flatter than rappor in made_up/figure7"},
    ])  # fmt: skip
    before = records_of(drawn)
    after = {key: r | {"accuracy": r["accuracy"] - 0.05} for key, r in before.items()}
    monkeypatch.setattr("papers.figures.paper.load_figure", lambda name, budget: figure())
    monkeypatch.setattr(
        PaperFigure, "points", lambda self, r, real=PaperFigure.points: real(
            self, after if self.spec.statements else before)
    )  # fmt: skip
    words = [each.word for each in drawn.verdicts(drawn.points(after), before)]
    assert words == ["does not hold", "holds", "does not hold"]


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


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("rappor beats rr", "cannot read the check"),
        ("rappor > rr for k >= 4", "after `for` comes K"),
        ("rapor > rr", "the figure has no line rapor"),
        ("rappor > rr for K >= 400", "no x that >="),
        ("rappor highest between 50 and 60", "no x between 50 and 60"),
        ("rappor > rr in made_up/figure8", "no experiment 'made_up/figure8'"),
    ],
)
def test_a_check_that_asks_for_nothing_is_refused(check, says):
    # A typing error would read as "undecided" for ever.
    with pytest.raises(InputError, match=says):
        verdict(check)


PAGE = """\
# made_up, figure 7

![Circle, eps=1, k=9, 1,000 trials](made_up_figure7.png)

Circle, eps=1, k=9, 1,000 trials. Figure 7 of made_up from our own records. Bands: 95 % t intervals over seeds, or over the trials of one seed.

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
