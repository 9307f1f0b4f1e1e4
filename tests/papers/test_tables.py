"""Tables: cells filled by their own records, marks, layouts, and kinds of their own."""

import math
import sys

import pytest

from labeldp_bench.cli.main import main
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.reports.rendering import latex_of
from papers.reproduce import load_table, paper_tables
from papers.tables import AccuracyTable, accuracy_table


def hashes(experiment):
    return {cell.config_hash for cell in read_experiment(experiment).cells()}


def record_of(cell, **values):
    """A record as `read_with_classes` gives it."""
    classes = [0.5] * cell.num_classes
    return {
        "accuracy": 0.5, "per_class_mean": 0.5, "per_class_accuracy": classes, "n_test": 10_000,
        "trust": "local", "distribution": 1,
    } | values  # fmt: skip


def filled(table, accuracies, **values):
    """Records for the cells of one method and eps, one per accuracy, and the row they make."""
    dataset, method, eps = values.pop("at")
    cells = [
        cell
        for cell in table.experiment.cells()
        if (cell.dataset_name, table.method_of(cell)) == (dataset, method)
        and float(cell.identity.get("mechanism.eps", math.inf)) == eps
    ]
    records = {
        cell.config_hash: record_of(cell, accuracy=accuracy, **values)
        for cell, accuracy in zip(cells, accuracies, strict=False)
    }
    rows = table.rows(records)
    [row] = rows[(rows.method == method) & (rows.eps == eps)].to_dict("records")
    return row, rows


def test_experiments_on_the_same_runs_share_their_cells():
    # The same network would be trained three times, or a table would stay empty.
    assert hashes("blockrr/table3") == hashes("blockrr/table4") == hashes("blockrr/table10")
    assert hashes("blockrr/table5") == hashes("blockrr/table6") == hashes("blockrr/table11")
    # Table 7 holds table 5's BlockRR up to eps=4: its best l of each budget.
    shared = hashes("blockrr/table7") & hashes("blockrr/table5")
    assert len(shared) == 6 * 10


def test_a_row_that_may_be_either_of_two_methods_stands_beside_both():
    # A reader would take our difference from the one for a difference from print.
    table = accuracy_table("vector_approximation/table1a")
    row, rows = filled(table, [0.3, 0.28, 0.29], at=("mnist", "alibi+soft_label", 0.3))
    assert (row["published"], row["difference"]) == (55.1, pytest.approx(29 - 55.1))
    assert row["marked"]
    alibi = rows[rows.method == "alibi"]
    assert alibi.published.tolist() == [50.9, 55.1, 84.3, 89.4, 94.5, 97.6]


def test_every_printed_cell_has_a_run():
    # A printed number would have nothing of ours beside it, for ever.
    for table in paper_tables():
        if isinstance(table, AccuracyTable):
            rows = table.rows({})
            assert (rows.cells > 0).all(), rows[rows.cells == 0]


@pytest.mark.parametrize(
    ("accuracies", "marked"),
    [([0.70], False), ([0.70, 0.72], False), ([0.70, 0.71, 0.705], True), ([0.74, 0.78], False)],
)
def test_marks(accuracies, marked):
    # A difference within noise would be called a disagreement; or one seed would.
    table = accuracy_table("vector_approximation/table1a")
    row, _ = filled(table, accuracies, at=("mnist", "rappor", 0.3))
    assert row["published"] == 78.4 and row["n"] == len(accuracies)
    assert row["difference"] == pytest.approx(100 * sum(accuracies) / len(accuracies) - 78.4)
    assert row["marked"] == marked


def test_class_averages_and_classes_come_from_the_same_records():
    # Table 4 would show overall accuracies, table 10 the class above.
    classes = [0.01 * number for number in range(10)]
    values = {"per_class_mean": 0.045, "per_class_accuracy": classes, "n_test": 3350}
    row, _ = filled(accuracy_table("blockrr/table4"), [0.6], at=("cifar10_1", "rr", 1), **values)
    assert row["ours"] == pytest.approx(4.5)
    table = accuracy_table("blockrr/table10")
    cell = next(c for c in table.experiment.cells() if table.method_of(c) == "rr")
    rows = table.rows({cell.config_hash: record_of(cell, **values)})
    done = rows[rows.n > 0].sort_values("class")
    assert done.ours.tolist() == pytest.approx([100 * value for value in classes])
    assert done["class"].tolist() == list(range(10))
    assert done.n_test.tolist() == [500, 490, 470, 460, 450, 480, 100, 150, 100, 150]
    text = table.markdown(rows)
    assert "| cifar10_1, eps=0.8" in text and "| class 9" in text
    assert "1 of 270 runs done" in text


def test_a_column_that_is_not_what_it_says_is_one_column():
    # ALIBI at "2" is 2.1 (T11): two half-empty columns would compare nothing.
    table = accuracy_table("vector_approximation/table2")
    row, rows = filled(table, [0.84], at=("cifar10", "alibi", 2.1))
    assert (row["published"], row["printed_eps"], bool(row["usable"])) == (84.2, 2, True)
    text = table.markdown(rows)
    assert "eps=2.1  " not in text.split("\n")[4] and "84.2 at eps=2.1" in text
    assert "84.0 (1) at eps=2.1" in text


def test_markdown_and_latex_of_a_small_set_of_records():
    # A change of layout would go unseen.
    table = accuracy_table("vector_approximation/table1b")
    _, rows = filled(table, [0.8, 0.82], at=("fashion_mnist", "rappor", 1))
    lines = table.markdown(rows).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("| RAPPOR  "))
    texts = [[part.strip() for part in line.split("|")[1:-1]] for line in lines[start : start + 3]]
    assert texts == [
        ["RAPPOR", "ours", "-", "81.0 ± 12.7 (2)", "-", "-", ""],
        ["", "paper", "75.7", "83.4", "84.7", "85.9", ""],
        ["", "difference", "", "-2.4", "", "", ""],
    ]
    written = latex_of(table.parts(rows))
    assert "RAPPOR & ours & - & 81.0 $\\pm$ 12.7 (2) & - & - &  \\\\" in written
    assert "`python" not in written and written.isascii()
    assert (
        "the others: `python -m labeldp_bench experiment=vector_approximation/table1b`" in lines[-1]
    )


def test_a_table_shows_what_it_has():
    # Rows of dashes, a test of no differences, and 50 ± 90 hid the few numbers that there were.
    table = accuracy_table("vector_approximation/table1a")
    row, rows = filled(table, [0.05, 0.5, 0.95], at=("mnist", "alibi", 0.3))
    assert (row["high"] - row["low"]) / 2 > 100
    page = table.markdown(rows)
    assert "50.0 ± over 50 (3)" in page and "Over 50:" in page
    ours = [
        line for line in page.splitlines() if line.split("|")[2:3] and "ours" in line.split("|")[2]
    ]
    assert len(ours) == 1
    assert "RAPPOR (0 of " in page and "ALIBI (0 of " not in page
    assert "significant" in page and "significant" not in table.markdown(table.rows({}))


def test_a_cell_is_filled_by_its_own_identity_alone():
    # A run of 3 epochs would stand in a table of 5.
    table = accuracy_table("vector_approximation/table1a")
    near = compose_cell(["dataset=mnist", "mechanism=rappor", "eps=0.3", "trainer.epochs=3"])
    rows = table.rows({near.config_hash: record_of(near)})
    assert rows.n.sum() == 0


@pytest.mark.parametrize("budget", ["quick", "card", "features"])
def test_a_smaller_cell_is_never_shown_as_the_papers(budget):
    # A run of 4 epochs on a small network, or of 30 in place of 160, would be compared with the
    # printed number; or what a card found would be in no table at all.
    table = accuracy_table("blockrr/table3")
    at = [c for c in table.experiment.cells(budget) if table.method_of(c) == "rr"]
    cell = next(c for c in at if c.identity["mechanism.eps"] == 1)
    smoke = table.experiment.cells("smoke")[0]
    records = {
        cell.config_hash: record_of(cell, accuracy=0.31, n_test=3350, budget=budget),
        smoke.config_hash: record_of(smoke, accuracy=0.99, n_test=200, budget="smoke"),
    }
    rows = table.rows(records)
    [row] = rows[rows.n > 0].to_dict("records")
    assert (row["budget"], row["ours"], row["n"]) == (budget, 31, 1)
    assert row["published"] != row["published"] and row["difference"] != row["difference"]
    assert rows[rows.budget == "paper"].n.sum() == 0
    text = table.markdown(rows)
    [line] = [line for line in text.splitlines() if "31.0" in line]
    assert line.split("|")[2].strip() == f"ours ({budget})"
    assert all(f"ours ({other})" not in text for other in {"card", "features", "quick"} - {budget})
    assert "0 of 270 cells" in text and "99.0" not in text


def test_a_budget_without_cells_of_a_table_leaves_it_as_it_is():
    # One record on photographs would stop every table of digits.
    cell = accuracy_table("blockrr/table3").experiment.cells("features")[0]
    records = {cell.config_hash: record_of(cell, budget="features")}
    rows = accuracy_table("vector_approximation/table1a").rows(records)
    assert set(rows.budget) == {"paper"} and rows.n.sum() == 0


def test_ple_table_1_reads_the_printed_row_as_another_scale():
    # The claim that ALIBI keeps more labels than RR at equal eps would stand (T1).
    table = load_table("ple/table1")
    rows = table.rows({}).set_index(["num_classes", "method", "eps"])
    for eps in (1, 1.2, 1.4, 1.6, 1.8, 2, 8):
        printed, honest = rows.loc[10, "alibi_as_printed", eps], rows.loc[10, "alibi", eps]
        assert abs(printed.difference) < 0.3 < 14 < -honest.difference
        assert printed.real_eps == pytest.approx(2 * math.sqrt(2) * eps)
        assert not honest.usable and honest.real_eps == eps
        assert honest.ours < rows.loc[10, "rr", eps].ours
        assert abs(rows.loc[10, "rrwithprior", eps].difference) < 0.006
    # At the real eps the mechanism is the one that spends it: row 1 at 2.83 is row 2's.
    assert rows.loc[10, "alibi", 2].ours == pytest.approx(25.73, abs=0.005)
    assert rows.loc[100, "alibi", 8].ours == pytest.approx(41.28, abs=0.005)
    assert rows.loc[100].published.isna().all()
    assert table.experiment.cells() == []


def test_arithmetic_on_the_command_line(tmp_path, monkeypatch, capsys):
    # `experiment=ple/table1` would run one default cell, or stop with a traceback.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["labeldp-bench", "experiment=ple/table1"])
    main()
    out, err = capsys.readouterr()
    assert out.startswith("ple/table1 is computed from formulas, without runs\n") and err == ""
    assert "| ALIBI, scale 2/eps" in out and "16.37" in out
    assert list(tmp_path.iterdir()) == []
    sys.argv.append("eps=3")
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr() == (
        "",
        "error: ple/table1 is computed from formulas, without runs: eps has no effect\n",
    )
