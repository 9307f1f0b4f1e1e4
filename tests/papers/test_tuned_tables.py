"""Tuned beside stated: twins, pairs of seeds, families of tests, what is left out."""

import math

import pytest
from scipy import stats

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.collect import Chosen, merge_choices, read_choices
from labeldp_bench.records.published import read_published
from labeldp_bench.reports.rendering import markdown_of
from papers.comparisons import holm
from papers.site.tuned import (
    SOFT_LABEL,
    STATED,
    compared,
    order_of,
    parts_of,
    place_of,
    rows_of,
    tuned_experiment,
    untuned,
)

HERE = ("mnist", 0.3)
GAINS = {"rr": (8, 9, 10.5), "rappor": (1, 4, -2), "alibi": (0.5, 0.1, 0.2)}
"""{method: tuned - stated of three seeds, in points}."""
BASE = {"rr": (50, 65, 60), "rappor": (75, 78, 79), "alibi": (88, 90, 89)}
CHOSEN = Chosen(0.0003, 0.995, 7)


def records_of(gains=GAINS, seeds=3, extra=0):
    """Made-up records of some methods on MNIST at eps=0.3; `extra` seeds are tuned alone."""
    found = {}
    for cell in tuned_experiment().cells():
        *where, method = place_of(cell)
        if tuple(where) != HERE or method not in gains or cell.seed >= seeds + extra:
            continue
        base = {"mechanism": cell.identity["mechanism"], "seed": cell.seed, "distribution": 2}
        stated = BASE[method][min(cell.seed, 2)]
        if cell.seed < seeds:
            found[untuned(cell).config_hash] = base | {"accuracy": stated / 100}
        tuned = (stated + gains[method][min(cell.seed, 2)]) / 100
        found[cell.config_hash] = base | {"accuracy": tuned, "tuned": [CHOSEN]}
    return found


def page_of(records):
    found = compared(records, read_published())
    return markdown_of(parts_of(rows_of(found)))


def test_every_tuned_cell_has_a_stated_twin_in_the_papers_table():
    # Every tuned number would be next to an empty column; a cell that forgot its tuning put five
    # stated runs into the mean of the tuned ones.
    cells = tuned_experiment().cells()
    assert {cell.identity.get("tuning") for cell in cells} == {"held_out_releases"}
    stated = {cell.config_hash for cell in read_experiment(STATED).cells()}
    assert {untuned(cell).config_hash for cell in cells} == stated
    table = {cell.config_hash for cell in read_experiment("vector_approximation/table1a").cells()}
    mnist = [cell for cell in cells if cell.dataset_name == "mnist" and cell.seed < 5]
    assert {untuned(cell).config_hash for cell in mnist} <= table
    assert not table & {cell.config_hash for cell in mnist}


def test_differences_are_by_seed_and_corrected_for_the_table():
    # Seeds differ by 15 points: unpaired, a gain of nine would be no difference.
    rows = rows_of(compared(records_of(extra=4), read_published())).set_index("method")
    assert list(rows.index) == ["rr", "rappor", "alibi"]
    raw = [float(stats.ttest_1samp(gains, 0).pvalue) for gains in GAINS.values()]
    assert rows.p.tolist() == pytest.approx(holm(raw))
    assert rows.significant.tolist() == [True, False, False]
    rr = rows.loc["rr"]
    assert (rr.printed, rr.stated, rr.stated_seeds) == (64.1, pytest.approx(175 / 3), 3)
    # The four seeds that are tuned alone count in the mean, and in no difference.
    assert (rr.tuned_seeds, rr.pairs) == (7, 3)
    assert rr.difference == pytest.approx(27.5 / 3) != pytest.approx(rr.tuned - rr.stated)


def test_the_order_is_a_family_of_its_own():
    order = order_of(compared(records_of(), read_published()))
    assert list(zip(order.method, order.other, strict=True)) == [
        ("rr", "rappor"), ("rr", "alibi"), ("rappor", "alibi")]  # fmt: skip
    tuned = {name: [s + g for s, g in zip(BASE[name], GAINS[name], strict=True)] for name in GAINS}
    raw = [
        float(stats.ttest_rel(tuned[one], tuned[two]).pvalue)
        for one, two in zip(order.method, order.other, strict=True)
    ]
    assert order.p.tolist() == pytest.approx(holm(raw))
    last = order.iloc[2]
    assert (last.printed, last.stated) == (pytest.approx(78.4 - 55.1), pytest.approx(-35 / 3))


def test_both_readings_of_alibi_stand_beside_the_one_printed_row_and_are_no_pair(monkeypatch):
    # A reader would take one reading for the printed one; or a pair would be printed as 0.
    monkeypatch.setitem(BASE, SOFT_LABEL, (30, 28, 33))
    records = records_of(GAINS | {SOFT_LABEL: (9, 12, 10)})
    found = compared(records, read_published())
    rows, order = rows_of(found).set_index("method"), order_of(found)
    assert list(rows.index) == ["rr", "rappor", "alibi", SOFT_LABEL]
    assert rows.printed[SOFT_LABEL] == rows.printed["alibi"] == 55.1
    pairs = list(zip(order.method, order.other, strict=True))
    assert len(pairs) == 5 and ("alibi", SOFT_LABEL) not in pairs
    assert "ALIBI, soft label" in page_of(records)


def test_a_run_of_two_stages_chooses_twice_and_the_page_says_so():
    # "(6)" stood beside three runs, under "in how many runs".
    records = records_of()
    for record in records.values():
        if "tuned" in record:
            record["tuned"] *= 2
    page = page_of(records)
    assert f"{CHOSEN.lr:g} (6)" in page
    assert "each run chooses once, and LP-2ST in each of its two stages" in page


def test_one_seed_is_shown_and_not_tested():
    rows = rows_of(compared(records_of(seeds=1), read_published()))
    assert rows.p.isna().all() and not rows.significant.any()
    assert "| 58.0 (1) | +8.0 (1) " in page_of(records_of(seeds=1)).replace("  ", "")


def test_runs_of_older_samplers_are_left_out_and_counted():
    records = records_of()
    for cell in tuned_experiment().cells():
        if place_of(cell) == (*HERE, "rr") and cell.seed == 0:
            records[untuned(cell).config_hash]["distribution"] = 1
    rows = rows_of(compared(records, read_published())).set_index("method")
    assert (rows.stated_seeds["rr"], rows.pairs["rr"], rows.older["rr"]) == (2, 2, 1)
    page = page_of(records)
    assert "1 older run is left out" in page
    # Two shared seeds are too few for pairs: the number was said to be of a test by seed.
    (line,) = [row for row in page.splitlines() if "| RR  " in row]
    assert rows.difference["rr"] == pytest.approx(rows.tuned["rr"] - rows.stated["rr"])
    assert "(Welch)" in line and "(2) |" in line and "fewer than 3 are shared" in page


def test_the_page_says_what_it_shows_and_what_is_left_out():
    page = page_of(records_of())
    cells = [[part.strip() for part in row.split("|")[1:-1]] for row in page.splitlines()]
    assert [
        "eps=0.3", "RR", "64.1", "58.3 ± 19.0 (3)", "67.5 ± 20.9 (3)", "+9.2 ± 3.1* (3)", "0.019",
        "0.0003 (3); 7 epochs",
    ] in cells  # fmt: skip
    assert "77 of the 80 cells" in page
    nothing = page_of({})
    assert "80 of the 80 cells" in nothing and "|" not in nothing


def test_what_was_chosen_survives_collecting(tmp_path):
    # The page would have to say nothing of learning rates.
    path = tmp_path / "tuned.csv"
    one = {"lr": 1e-4, "average": None, "epochs": 3, "held_out_log_likelihood": -2.25}
    base = {"dataset": "mnist", "mechanism": "rr", "loss": "plain", "eps": math.inf, "seed": 0}
    records = [
        base | {"config_hash": "a" * 16, "notes": {"tuned": one | {"epochs": 8}, "compiled": 1}},
        base | {"config_hash": "0" * 16,
                "notes": {"tuned_stage_2": one, "tuned_stage_1": one | {"average": 0.995}}},
        base | {"config_hash": "b" * 16},
    ]  # fmt: skip
    kept = [record["config_hash"] for record in records]
    merge_choices(records[:2], path, kept)
    before = path.read_bytes()
    merge_choices(records[1:], path, kept)
    assert path.read_bytes() == before
    merge_choices([records[0] | {"notes": {"tuned": one}}], path, kept)  # run again: replaced
    merge_choices([records[2] | {"notes": {"tuned_stage_2": one}}], path, kept)
    assert read_choices(path) == {
        "a" * 16: [Chosen(1e-4, None, 3)],
        "0" * 16: [Chosen(1e-4, 0.995, 3), Chosen(1e-4, None, 3)],
        "b" * 16: [Chosen(1e-4, None, 3)],
    }
    merge_choices([], path, kept[:1])  # the other record is retired
    assert list(read_choices(path)) == kept[:1]
    assert read_choices(tmp_path / "absent.csv") == {}
