"""The leaderboard: what a row averages, what it says, and that its command is the run's."""

import json
import re
import shlex

import pytest

from labeldp_bench.experiments.compose import choices_of, compose_cell
from labeldp_bench.experiments.experiment import read_experiment, scaled
from labeldp_bench.records.collect import read_committed
from papers.site import commands
from papers.site.commands import command_of, overrides_of
from papers.site.leaderboard import FEATURES, LEADERBOARD, page_of, rows_of


def runs(accuracies, *, first_seed=0, setting=None, **values):
    """Records of one method, one per accuracy."""
    found = {}
    for seed, accuracy in enumerate(accuracies, first_seed):
        record = {
            "dataset": "mnist", "mechanism": "rr", "model": "cnn", "learner": "single_stage",
            "loss": "plain", "eps": 1.0, "eps_spent": 1.0, "delta": 0.0, "trust": "local",
            "private": True, "selection": "last", "draws": 2, "n_train": 60_000, "n_test": 10_000,
            "epochs": 5, "git_commit": "a" * 40, "accuracy": accuracy, "seed": seed,
        } | values  # fmt: skip
        names = ("dataset", "mechanism", "model", "learner", "eps", "pretrain", "budget", "seed")
        record["identity"] = {key: record[key] for key in names if key in record} | (setting or {})
        record["config_hash"] = f"{len(found)} {values} {setting} {seed}"
        found[record["config_hash"]] = record
    return found


def rows(*many):
    records = {key: record for each in many for key, record in each.items()}
    return rows_of(records, with_commands=False)


def test_a_row_averages_seeds_of_the_newest_samplers_alone():
    # An old version of the noise would count as another seed.
    [row] = rows(runs([0.90, 0.92, 0.94]), runs([0.1, 0.1], first_seed=3, draws=1))
    assert row["accuracy"] == pytest.approx(0.92) and row["older_runs_left_out"] == 2
    assert row["seeds"] == [0, 1, 2] and len(row["records"]) == row["n_seeds"] == 3
    # Student's t with 2 degrees of freedom: 4.303 times 0.02 / sqrt(3).
    assert row["high"] - row["accuracy"] == pytest.approx(4.303 * 0.02 / 3**0.5, abs=1e-4)
    [alone] = rows(runs([0.9]))
    assert alone["low"] is None and alone["high"] is None


def test_two_methods_never_share_a_name_and_a_budget_is_no_method():
    several = rows(
        runs([0.9]), runs([0.8], setting={"trainer.epochs": 3}), runs([0.7], eps=2.0),
        runs([0.6], budget="quick"), runs([0.5], pretrain="simclr"),
    )  # fmt: skip
    places = {(row["data"], row["method"], row["eps"]) for row in several}
    assert len(places) == 5
    assert [row["method"] for row in several][-1] == "rr, plain, cnn"  # the one at eps=2
    assert any("trainer.epochs=3" in row["method"] for row in several)
    assert {row["features"].partition(" (")[0] for row in several} == {
        "none", "a network trained on the unlabelled training images"
    }  # fmt: skip


def test_a_row_says_what_was_learnt_without_a_release():
    # Rows of ridge said that it had a graph, those of two pre-trainings said their key alone.
    [ridge] = rows(runs([0.9], model="ridge", pretrain="simclr"))
    [graph] = rows(runs([0.9], model="eigenmaps"))
    assert "graph" not in ridge["features"] and graph["features"].startswith("a graph")
    assert {*choices_of("pretrain")} - {"none"} == {*FEATURES}


def test_what_protects_nothing_stands_below_and_says_so():
    bare = runs([0.99], mechanism="ple", private=False, trust="none", eps_spent=float("inf"))
    central = runs([0.98], mechanism="noisy_clusters", trust="central")
    found = rows(bare, central, runs([0.5]))
    assert [row["trust"] for row in found] == ["local", "central", "none"]
    assert [row["guarantee"] for row in found] == ["eps=1", "eps=1", "no guarantee"]


def test_people_who_share_a_budget_are_the_unit():
    [row] = rows(runs([0.9], setting={"dataset.rows_per_unit": 5}))
    assert row["unit"].startswith("all labels of one unit") and "5 labels" in row["unit"]


def test_a_record_is_text_on_the_page_and_nothing_is_loaded():
    # A submission could run its script in the browser of whoever reads the page.
    evil = "<img src=x onerror=alert(1)>"
    text = page_of(rows(runs([0.9], model=evil, git_commit=evil)))
    assert evil not in text and "&lt;img" in text
    assert not re.findall(r"https?://|<link|@import|url\(|src=\"", text)


def test_the_command_spells_the_record_and_not_its_neighbour(monkeypatch):
    # Whoever repeats a row would train something else.
    name = "vector_approximation/table1b"
    monkeypatch.setattr(commands, "experiment_names", lambda: [name])
    cells = {cell.config_hash: cell for cell in read_experiment(name).cells()}
    own = [record for key, record in read_committed().items() if key in cells]
    asked = [own[0], own[-1], {**own[0], "config_hash": "f" * 16}]
    found = overrides_of(asked)
    assert {own[0]["config_hash"], own[-1]["config_hash"]} <= set(found) and "f" * 16 not in found
    command = command_of(found[own[0]["config_hash"]], [own[0]["seed"]])
    again = compose_cell(scaled(shlex.split(command)[3:]))
    assert again.config_hash == own[0]["config_hash"]


def test_the_committed_rows_are_of_committed_records():
    records, board = read_committed(), json.loads(LEADERBOARD.read_text())
    assert len({(row["data"], row["method"], row["eps"]) for row in board}) == len(board) > 800
    for row in board:
        scores = [float(records[key]["accuracy"]) for key in row["records"]]
        assert row["accuracy"] == pytest.approx(sum(scores) / len(scores), abs=1e-6)
        assert row["selection"] in ("last", "mean_last_10", "best_validation")
    for row in [row for row in board if row["command"]][::200]:  # some repeat by no one command
        _, _, _, *overrides = shlex.split(row["command"])
        overrides = [text for text in overrides if text != "-m" and not text.startswith("seed=")]
        cell = compose_cell(scaled([*overrides, f"seed={row['seeds'][0]}"]))
        assert cell.config_hash == row["records"][0]
