"""The site's pages: means, differences, their correction, and that every YAML gives a page."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from scipy import stats

from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.collect import Chosen, read_with_classes
from labeldp_bench.records.published import method_of
from labeldp_bench.reports.rendering import markdown_of
from papers.site import lost_classes
from papers.site.findings import order_of
from papers.site.summaries import Summary, read_pages

BASE = {"a": (50, 65, 60), "b": (75, 78, 79)}
GAINS = {"a": (8, 9, 10.5), "b": (1, 4, -2)}
"""{data set: new - old of three seeds}. Seeds differ by 15: unpaired, 9 would be no difference."""


def run(dataset, method, seed, score, **more):
    record = {"mechanism": "rr", "seed": seed, "distribution": 2, "score": score / 100} | more
    return {"dataset": dataset, "method": method, "record": record}


def runs(*more):
    old = [run(name, "old", seed, own[seed]) for name, own in BASE.items() for seed in range(3)]
    new = [
        run(name, "new", seed, BASE[name][seed] + own[seed])
        for name, own in GAINS.items()
        for seed in range(3)
    ]
    return pd.DataFrame([*old, *new, *more])


def compared(frame, **given):
    given = {"by": ["dataset", "method"], "column": "method", "pairs": [("new", "old")]} | given
    rows = Summary(experiments=[], scores={"score": "score"}, **given).compare(frame)
    return rows.set_index(["dataset", "method"])


def test_means_and_differences_are_by_seed_and_corrected_for_the_table():
    rows = compared(runs())
    a, b = rows.loc["a", "new"], rows.loc["b", "new"]
    assert (a.difference, b.difference) == (pytest.approx(27.5 / 3), pytest.approx(1))
    assert (a.n, a.pairs, a.cells, a.other) == (3, 3, 3, "old")
    raw = {name: float(stats.ttest_1samp(own, 0).pvalue) for name, own in GAINS.items()}
    assert raw["a"] < 0.01 < 0.6 < raw["b"]
    # By hand after Holm: the smaller counts twice, the larger once.
    assert (a.p, b.p) == (pytest.approx(2 * raw["a"]), pytest.approx(raw["b"]))
    assert (bool(a.significant), bool(b.significant)) == (True, False)
    assert a.difference_high - a.difference == pytest.approx(
        stats.sem(GAINS["a"]) * stats.t.ppf(0.975, 2)
    )
    old = rows.loc["a", "old"]
    assert old.estimate.value == pytest.approx(175 / 3) and math.isnan(old.p)


def test_seeds_that_one_side_lacks_count_in_its_mean_alone():
    row = compared(runs(run("a", "new", 3, 100), run("a", "new", 4, 100))).loc["a", "new"]
    assert (row.n, row.pairs) == (5, 3)
    assert row.difference == pytest.approx(27.5 / 3) != row.estimate.value - 175 / 3


def test_runs_of_an_older_distribution_and_runs_not_done_are_left_out():
    undone = [{"dataset": name, "method": "old", "record": None} for name in "ac"]
    frame = runs(*undone)
    frame.record[0]["distribution"] = 1
    rows = compared(frame)
    old, new = rows.loc["a", "old"], rows.loc["a", "new"]
    assert (old.cells, old.n, old.older) == (4, 2, 1)
    # Two shared seeds are too few for pairs: Welch's test, of the two means.
    assert new.pairs == 2 and new.difference == pytest.approx(new.estimate.value - 62.5)
    nothing = rows.loc["c", "old"]
    assert nothing.n == 0 and math.isnan(nothing.estimate.value)


def test_one_seed_is_shown_and_not_tested():
    frame = runs()
    rows = compared(frame[[record["seed"] == 0 for record in frame.record]])
    assert rows.loc["a", "new"].difference == pytest.approx(8)
    assert rows.p.isna().all()


def test_the_best_of_several_counts_for_all_that_it_was_chosen_from():
    worse = [run("a", "new", seed, 10 + seed) for seed in range(3)]
    frame = pd.concat([runs().assign(line=0), pd.DataFrame(worse).assign(line=1)])
    rows = compared(frame, by=["dataset", "line", "method"], best="line")
    assert len(rows) == 4 and set(rows.line) == {0}
    raw = float(stats.ttest_1samp(GAINS["a"], 0).pvalue)
    assert rows.p.min() == pytest.approx(2 * 2 * raw)  # two tests, one of which had two lines


# --- pages ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records():
    return read_with_classes()


@pytest.mark.parametrize("stem", read_pages())
def test_every_page_gives_a_table(stem, records):
    # A misspelt column or experiment would be found when all tables are written.
    for known in (records, {}):
        for table in read_pages()[stem].tables:
            rows = table.rows(known)
            caption, *frames = table.parts(rows)
            assert "{" not in caption
            assert frames or not known
            text = markdown_of([*frames, *table.state(rows)])
            assert " nan " not in text
            if not read_pages()[stem].figure and table.csv(rows) is not None:
                assert list(table.csv(rows)) and (len(table.csv(rows)) > 0 or not known)


def made_up(stem, score, keep):
    """Returns a page's table and records of the cells that `keep` takes; `score` of each."""
    (table,) = read_pages()[stem].tables
    records = {}
    for cell in (cell for name in table.experiments for cell in read_experiment(name).cells()):
        recipe = "tuned" if "tuning" in cell.identity else "stated"
        at = cell.dataset_name, cell.identity.get("mechanism.eps"), recipe
        if keep(cell, at):
            records[cell.config_hash] = score(cell, recipe) | {
                "mechanism": cell.identity["mechanism"], "seed": cell.seed, "distribution": 2,
                "trust": "local",
            }  # fmt: skip
    return table, records


def tuned_page():
    """Returns the page of three methods on MNIST at eps=0.3, by both recipes."""
    gains = {"rr": 9, "rappor": 1, "alibi": 0.5}
    levels = {"rr": 60, "rappor": 75, "alibi": 88}

    def keep(cell, at):
        return method_of(cell) in gains and cell.seed < 3 and at[:2] == ("mnist", 0.3)

    def score(cell, recipe):
        name = cell.identity["mechanism"]
        value = levels[name] + cell.seed * (1 + (recipe == "tuned") / 10)
        tuned = {"tuned": [Chosen(0.0003, 0.995, 7)]} if recipe == "tuned" else {}
        return {"accuracy": (value + gains[name] * (recipe == "tuned")) / 100} | tuned

    return made_up("tuned_vs_stated", score, keep)


def test_a_line_has_published_stated_and_tuned_and_what_was_chosen():
    table, records = tuned_page()
    rows = table.rows(records)
    text = markdown_of(table.parts(rows))
    cells = [[part.strip() for part in row.split("|")[1:-1]] for row in text.splitlines()]
    (line,) = [row for row in cells if row[:2] == ["eps=0.3", "RR"]]
    assert line[2:6] == ["64.1", "61.0 ± 2.5 (3)", "70.1 ± 2.7 (3)", "+9.1 ± 0.2* (3)"]
    assert line[7] == "0.0003 (3); 7 epochs"
    csv = table.csv(rows)
    assert csv.method.tolist() == ["rr", "rappor", "alibi"] and csv.published[0] == 64.1
    assert (csv.stated_seeds[0], csv.tuned_seeds[0], csv.epochs[0]) == (3, 3, "7 7 7")
    assert table.state(rows)[-1].startswith("18 of ")


def test_the_order_of_methods_is_a_family_of_its_own():
    table, records = tuned_page()
    order = order_of(table.rows(records))
    assert list(zip(order.method, order.other, strict=True)) == [
        ("rr", "rappor"), ("rr", "alibi"), ("rappor", "alibi")]  # fmt: skip
    last = order.iloc[2]
    assert (last.published, last.stated) == (pytest.approx(78.4 - 55.1), pytest.approx(-13))
    assert last.difference == pytest.approx(-12.5) and last.pairs == 3


def test_every_tuned_cell_has_a_stated_twin_in_the_papers_table():
    # Every tuned number would be next to an empty column; a cell that forgot its tuning put five
    # stated runs into the mean of the tuned ones.
    tuned, stated = (read_experiment(f"mechanisms/{name}").cells() for name in ("tuned", "stated"))
    bare = [replace(cell, config=cell.config | {"tuning": None}).config_hash for cell in tuned]
    assert {cell.identity.get("tuning") for cell in tuned} == {"held_out_releases"}
    assert {*bare} == {cell.config_hash for cell in stated}
    table = {cell.config_hash for cell in read_experiment("vector_approximation/table1a").cells()}
    pairs = zip(tuned, bare, strict=True)
    mnist = [pair for pair in pairs if pair[0].dataset_name == "mnist" and pair[0].seed < 5]
    assert {twin for _, twin in mnist} <= table
    assert not table & {cell.config_hash for cell, _ in mnist}


def test_a_baseline_is_not_tested_against_itself():
    def keep(cell, at):
        return at[:2] == ("loanapp", 1) and cell.identity["mechanism"] == "rr"

    def score(cell, recipe):
        gains = {"plain": 0, "unbiased": 0.001 * (-1) ** cell.seed, "marginal": 0.02}
        score = 0.7 + gains[cell.identity["learner.loss"]] + cell.seed**2 / 1000
        return {"accuracy": score, "auc": score}

    table, records = made_up("tables_secret_ballot", score, keep)
    rows = table.rows(records)
    csv = table.csv(rows).query("n == 10 and score == 'auc'").set_index("method")
    assert (csv.difference["rr"], csv.difference["rr+marginal"]) == (0, pytest.approx(2))
    # The same gap at every seed is no certainty; two scores of one loss are tested.
    assert csv.p.notna().tolist() == [False, True, False] and csv.p["rr+unbiased"] == 1
    assert "for the 2 differences" in markdown_of(table.parts(rows))


def test_a_class_is_lost_below_half_of_chance():
    # The mean, 95.6, is of no seed, and says nothing of a digit that is gone.
    def some(least, classes=10, private=True, **own):
        return {
            f"{seed} {own} {classes} {private}": {
                "dataset": "mnist", "mechanism": "rr", "loss": "plain", "model": "eigenmaps",
                "eps": 0.2, "seed": seed, "budget": "paper", "pretrain": "simclr",
                "private": private, "accuracy": 0.9 + lowest / 10, "distribution": 1,
                "identity": {"mechanism": "rr", "seed": seed, "classes": classes, **own},
                "per_class_accuracy": [lowest, *[0.95] * (classes - 1)],
            }
            for seed, lowest in enumerate(least)
        }  # fmt: skip

    [row] = lost_classes.rows_of(some([0.9, 0.9, 0.9, 0.0, 0.1])).to_dict("records")
    assert row["lost"] == pytest.approx(0.2)  # 10 % of a class is twice 5 %
    assert (row["median"], row["worst"], row["seeds"]) == (pytest.approx(99), pytest.approx(90), 5)
    assert lost_classes.rows_of(some([0.03] * 5, classes=100)).lost.tolist() == [0]
    # Other settings are other rows.
    both = some([0.9] * 5) | some([0.0] * 5, **{"model.functions": [1, 2]})
    assert sorted(lost_classes.rows_of(both).lost) == [0, 1]
    for left_out in (some([0.0] * 4), some([0.0] * 5, classes=2), some([0.0] * 5, private=False)):
        assert lost_classes.rows_of(left_out).empty
    # The findings show what has twenty seeds, in place of their old table and of nothing else.
    other = "| method | eps |\n| --- | --- |\n| a | 1 |\n"
    head = f"| {' | '.join(lost_classes.HEADINGS)} |\n{'| --- ' * 5}|\n"
    rows = lost_classes.rows_of(some([0.9] * 17 + [0.0] * 3) | some([0.0] * 5, lr=1))
    page = lost_classes.with_table(
        f"Text.\n\n{other}\n{head}| old | 1 | 2 | 3 | 4 |\n\nEnd.\n", rows
    )
    assert page.startswith(f"Text.\n\n{other}\n| method") and page.endswith(" |\n\nEnd.\n")
    assert "3 of 20" in page and "5 of 5" not in page and "old" not in page
    assert lost_classes.with_table(page, rows) == page
    with pytest.raises(ValueError, match="0 tables"):
        lost_classes.with_table("Text.\n", rows)
