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
        record = {
            "accuracy_sem": 0.001, "eps": 1.0, "trust": "local", "private": True, "distribution": 1,
        }  # fmt: skip
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


def test_numbers_of_comparisons_count_and_certainty_needs_a_difference():
    # Of a hundred true comparisons five would be called false at two standard errors, and the
    # highest of five that are alike is above the sixth more often than one of them.
    low, high = Gap("a", SeedsEstimate(-2.5, 1)), Gap("a", SeedsEstimate(2.2, 1))
    few = Gap("a", SeedsEstimate(5.0, 1.0, 1))  # with one degree of freedom that is chance
    for gaps, word in (
        ([low], FAILS),
        ([low, *[Gap("b", SeedsEstimate(9, 1))] * 99], UNDECIDED),
        ([high], HOLDS),
        ([high._replace(chosen_from=5)], UNDECIDED),
        ([few], UNDECIDED),
        ([Gap("a", SeedsEstimate(1, 0))], HOLDS),
        ([Gap("a", SeedsEstimate(0, 0))], UNDECIDED),
    ):
        assert judge(gaps).word == word, gaps


def test_the_page_shows_each_statement_with_its_verdict(tmp_path):
    # A reader would have to run the check to know what it found.
    write_pinned(tmp_path)
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (tmp_path / "made_up_figure7.md").read_text().splitlines()
    ]
    assert ["RAPPOR", "99.00 ± 0.39", "86.20 ± 0.39", "26.00 ± 0.39"] in rows
    assert ["Bayes limit", "99.50", "88.34", "47.01"] in rows
    verdict = ["More than RR.", "section 1", "`rappor > rr`", "**holds**"]
    assert [*verdict, "rappor - rr at 10: +1.00 ± 0.55"] in rows
