"""Tables of sweeps: what is averaged, what a row is called, and which files are written."""

import math
from itertools import product

import pandas as pd
import pytest
from scipy import stats

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.published import published_accuracies
from labeldp_bench.reports.rendering import markdown_of
from labeldp_bench.reports.sweeps import (
    difference_parts,
    risk_frame,
    risk_parts,
    settings,
    sweep_differences,
    sweep_frame,
    sweep_parts,
)
from tests.shell import quick, records_under

HOLDER = ["-m", "budget=smoke", "mechanism=rr", "eps=0.5,1", "seed=0,1"]


def made_up(*overrides, accuracy=0.5):
    """A record of the cell that the overrides spell."""
    identity = compose_cell(list(overrides)).identity
    eps = float(identity.get("mechanism.eps", "inf"))
    return {
        "dataset": identity["dataset"], "mechanism": identity["mechanism"], "eps": eps,
        "accuracy": accuracy, "trust": "local" if math.isfinite(eps) else "none",
        "private": math.isfinite(eps), "identity": identity, "distribution": 1,
    }  # fmt: skip


def names_of(*sweep):
    """What a sweep over network cells of `{key: values}` calls its lines."""
    records = []
    for grid in sweep:
        for values in product(*grid.values()):
            spelled = [f"{key}={value}" for key, value in zip(grid, values, strict=True)]
            records.append(made_up("dataset=mnist", *spelled))
    frame = sweep_frame(records)
    seedless = {str(r["identity"] | {"seed": 0}) for r in records}
    assert len(frame) == len(seedless)  # nothing that differs in more was averaged
    names = list(dict.fromkeys(frame.series))
    assert not any(word in name for name in names for word in ("None", "_target_", "labeldp"))
    return names


def test_risks_are_averaged_over_seeds_and_written_beside_accuracies(tmp_path):
    # Each seed had a row, cells with an accuracy vanished, and no file was left.
    mixed = quick([*HOLDER, "dataset=circle,holder_classification"], tmp_path)
    assert mixed.returncode == 0, mixed
    [written] = tmp_path.rglob("sweeps/*.md")
    text = written.read_text()
    assert text in mixed.stdout
    assert "circle: accuracy in percent" in text and "excess risk  " in text
    rows = [line for line in text.splitlines() if line.startswith("| holder_classification")]
    assert len(rows) == 2 and all(line.split("|")[-2].strip() == "2" for line in rows)
    numbers = pd.read_csv(written.with_suffix(".csv"))
    assert numbers.accuracy.notna().sum() == numbers.excess_risk.notna().sum() == 2
    assert written.with_suffix(".png").is_file()
    latex = written.with_suffix(".tex").read_text()
    assert latex.count("\\begin{tabular}") == 2 and "holder\\_classification & " in latex
    assert f"LaTeX    {written.with_suffix('.tex').relative_to(tmp_path)}" in mixed.lines
    assert len(records_under(tmp_path)) == 8
    assert text.count("budget=smoke only checks") == 1
    alone = quick([*HOLDER, "dataset=holder_classification"], tmp_path)
    assert "4 cells: 4 done in results/runs, 0 to run in 0 jobs" in alone.lines
    assert alone.lines[-2].startswith("table ") and "picture" not in alone.stdout
    assert len(list(tmp_path.rglob("sweeps/*.csv"))) == 2
    assert len(list(tmp_path.rglob("sweeps/*.png"))) == 1


def test_only_the_cells_of_a_table_have_published_values():
    # A figure's cell differs from the table's in settings that the paper's rows do not name.
    table = read_experiment("vector_approximation/table1a")
    cells = [cell for cell in table.cells() if cell.identity.get("mechanism.eps") == 2]
    found = published_accuracies(table, cells)
    assert {found[cell.config_hash] for cell in cells if cell.seed == 0 and
            cell.config_hash in found} == {97.7, 97.6, 97.4}  # fmt: skip
    figure = read_experiment("blockrr/figure2")
    assert published_accuracies(figure, figure.cells()) == {}


def test_a_mean_of_risks_has_the_interval_over_its_seeds():
    # The error over the trials of one seed would stand beside the mean of two.
    records = [
        made_up("dataset=diabetes", f"mechanism={name}", f"seed={seed}")
        | {"test_mse": mse, "test_mse_sem": 9.0}
        for name, seed, mse in (("laplace", 0, 10.0), ("laplace", 1, 14.0), ("none", 0, 3.0))
    ]
    frame = risk_frame(records, "test_mse")
    assert frame.to_dict("list") == {
        "dataset": ["diabetes", "diabetes"], "mechanism": ["laplace", "none"],
        "trust": ["local", "none"], "eps": [1.0, math.inf], "test_mse": [12.0, 3.0],
        "error": pytest.approx([2 * 12.706205, 9 * 1.959964]), "seeds": [2, 1],
    }  # fmt: skip


def test_a_table_of_risks_keeps_keys_that_end_alike_apart():
    # One column would show the last of them, and nothing where a value is its default.
    records = [
        {
            "identity": {"dataset.beta": data, "seed": 0} | ({"learner.beta": 2} if own else {}),
            "excess_risk": 0.1, "excess_risk_sem": None, "eps": 1.0, "trust": "local",
            "distribution": 1,
        }
        for data in (0.5, 1.0)
        for own in (False, True)
    ]  # fmt: skip
    frame = risk_frame(records, "excess_risk")
    lines = markdown_of(risk_parts(frame, "excess_risk")).splitlines()
    assert "dataset.beta" in lines[0] and "learner.beta" in lines[0]
    assert frame["learner.beta"].tolist() == ["default", "2", "default", "2"]


def test_what_differs_in_more_than_the_seed_is_never_averaged():
    # K=10 and K=40 gave one number, and their difference as its error; so did eps=1 and eps=inf.
    for budgets in ((1.0, 2.0), (1.0, math.inf)):
        records = [
            made_up("mechanism=rr", f"eps={e}", f"dataset.num_classes={k}", accuracy=1 / (e + k))
            for e in budgets
            for k in (10, 40)
        ]
        frame = sweep_frame(records)
        assert sorted(frame.accuracy) == sorted(r["accuracy"] for r in records)
        assert set(frame.seeds) == {1}


def test_a_sweep_averages_the_newest_distribution_alone():
    # A mean of two distributions is that of neither.
    records = [made_up("mechanism=rr", f"seed={n}", accuracy=n / 10) for n in (1, 2, 3)]
    for record in records[1:]:
        record["distribution"] = 2
    frame = sweep_frame(records)
    assert (frame.accuracy[0], frame.seeds[0]) == (0.25, 2)
    assert "\n\n1 older run is left out: " in markdown_of(sweep_parts(frame))


def test_below_a_table_stands_how_many_seeds_its_points_have():
    # Beside a mean of three seeds stood "5 seeds", as another point had five.
    size = {"n_train": 60_000, "n_test": 10_000, "trials": 1, "model": "knn"}
    records = [
        made_up("mechanism=rr", f"seed={seed}", f"eps={eps}") | size | {"seed": seed}
        for eps, seeds in ((1, 3), (2, 1))
        for seed in range(seeds)
    ]
    first = "- circle: 60,000 training examples, 10,000 test examples, 1 trial, 1 to 3 seeds, "
    assert settings(records).startswith(first)
    older = [record | {"distribution": 1 + (record["seed"] == 0)} for record in records]
    assert ", 1 trial, 1 seed, " in settings(older)


def test_a_line_is_named_by_what_tells_it_apart_and_by_nothing_that_follows_from_it():
    # A model's name brought its class, its recipe and a dozen more keys, or "None" without one.
    both = {"model": ["cnn", "linear"], "eps": [0.5, 1], "seed": [0, 1]}
    assert names_of(both | {"mechanism": ["rr", "ple"]}) == [
        "rr, cnn", "ple, cnn", "rr, linear", "ple, linear"
    ]  # fmt: skip
    networks = {"model": ["resnet18", "wrn28_2"], "mechanism": ["rr"]}
    assert names_of(networks) == ["rr, resnet18", "rr, wrn28_2"]
    assert names_of({"trainer": ["vector_approximation", "alibi"], "mechanism": ["rr"]}) == [
        "rr, batch_size=400", "rr, batch_size=128"
    ]  # fmt: skip
    assert names_of({"mechanism": ["rr"]}, {"mechanism": ["lp_2st"], "eps": [1, 2]}) == [
        "rr", "lp_2st"
    ]  # fmt: skip
    learners = {"mechanism": ["rr"], "learner.retrain": ["none", "consensus"]}
    assert names_of(learners) == ["rr", "rr, retrain=consensus"]


def test_all_that_differs_in_a_name_is_in_it():
    # Two lines of one name were one, their difference a standard error.
    epochs = {"learner.client.epochs": [2, 3], "trainer.epochs": [1, 2]}
    assert names_of({"mechanism": ["ple"]} | epochs) == [
        f"ple, learner.client.epochs={client}, trainer.epochs={server}"
        for client in (2, 3)
        for server in (1, 2)
    ]
    stages = {"mechanism": ["lp_2st"], "learner.first.eps": [0.25, 0.5]}
    assert names_of(stages) == [f"lp_2st, learner.first.eps={eps}" for eps in (0.25, 0.5)]
    augmented = {"trainer.augment": ["[{_target_:labeldp_bench.training.augment.Flip}]", "[]"]}
    assert names_of({"mechanism": ["rr"]} | augmented) == ["rr, augment=[Flip]", "rr"]


def test_a_panel_is_named_by_the_keys_that_its_data_has():
    # "limit_train=None" stood over the whole data set.
    cells = [[], ["dataset.limit_train=100"]]
    frame = sweep_frame([made_up("dataset=mnist", "mechanism=rr", *cell) for cell in cells])
    assert frame.panel.tolist() == ["MNIST, eps=1", "MNIST, limit_train=100, eps=1"]
    # Two data sets have two panels, each of one K: K is no axis.
    two = [made_up(f"dataset={name}", "mechanism=rr") for name in ("cifar10", "cifar100")]
    assert set(sweep_frame(two).x_name) == {"eps"}


def test_the_baseline_alone_has_its_numbers_at_each_number_of_classes():
    # A sweep of mechanism=none over K printed a column "inf" and a dash.
    cells = [made_up("mechanism=none", f"dataset.num_classes={k}") for k in (4, 10)]
    heading, _, row = markdown_of(sweep_parts(sweep_frame(cells))).splitlines()[2:]
    assert [each.strip() for each in heading.split("|")[2:4]] == ["4", "10"]
    assert [each.strip() for each in row.split("|")[2:4]] == ["50.00", "50.00"]


def test_methods_that_share_seeds_are_compared_seed_by_seed():
    # A gap of every seed would drown in the spread of seeds, or the best of many pass for certain.
    found = {
        ("rr", 1): [0.61, 0.72, 0.53, 0.80],
        ("rappor", 1): [0.63, 0.745, 0.55, 0.818],
        ("rr", 2): [0.70, 0.71, 0.75, 0.73],
        ("rappor", 2): [0.71, 0.70, 0.74, 0.75],
        ("oue", 2): [0.7, 0.8],  # too few
    }
    records = [
        made_up("dataset=mnist", f"mechanism={name}", f"eps={eps}", accuracy=value) | {"seed": seed}
        for (name, eps), values in found.items()
        for seed, value in enumerate(values)
    ]
    tested = sweep_differences(records).set_index("x")
    alone = [stats.ttest_rel(found["rr", eps], found["rappor", eps]).pvalue for eps in (1, 2)]
    assert tested.p.tolist() == pytest.approx([2 * alone[0], alone[1]])  # Holm by hand
    assert tested.difference[1] == pytest.approx(-2.075) and tested.pairs.tolist() == [4, 4]
    assert tested.significant.tolist() == [True, False]
    shown = markdown_of(difference_parts(tested.reset_index(), sweep_frame(records)))
    assert "RR - RAPPOR" in shown and "-2.08" in shown
    assert sweep_differences(records[-2:]).empty
