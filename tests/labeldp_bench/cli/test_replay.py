"""scripts/replay.py: which committed records it runs again."""

import importlib.util
import runpy
from types import SimpleNamespace

import pytest

from labeldp_bench.records.collect import COLUMNS, read_committed
from tests.conftest import CHECKOUT


@pytest.fixture
def replay(monkeypatch, tmp_path):
    """The script's main, with one seed of two tables for records, in a place of its own."""
    found = runpy.run_path(str(CHECKOUT / "scripts" / "replay.py"))
    few = {
        name: record
        for name, record in read_committed().items()
        if (record["dataset"], record["model"], record["mechanism"], record["seed"])
        in (("affairs", "logistic", "none", 0), ("breast_cancer", "logistic", "none", 0))
    }
    assert len(few) == 2
    names = found["main"].__wrapped__.__globals__
    monkeypatch.setitem(names, "read_committed", lambda: few)
    monkeypatch.setitem(names, "experiment_names", lambda: ["tables/rare_events"])
    # Of their seconds nothing is known on other hardware than that of the records.
    quick = SimpleNamespace(seconds=lambda cell: (1.0, ""))
    monkeypatch.setitem(names, "Durations", lambda here, records: quick)
    return lambda *arguments: found["main"]([f"data_dir={tmp_path}", *arguments])


def test_a_table_whose_package_is_not_installed_is_left_out_with_the_reason(
    replay, monkeypatch, capsys
):
    # Its cells were taken for affordable, run, and reported as failed: the sample got smaller.
    find = importlib.util.find_spec

    def without(name, package=None):
        return None if name == "statsmodels" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    replay("n=2")
    said = capsys.readouterr().out
    reason = "left out: affairs: this data set comes with the package statsmodels"
    assert said.count(reason) == 1
    assert "1 of 2 records are affordable; 1 run again" in said
    assert "failed" not in said and "breast_cancer" in said


def test_scores_of_tables_are_compared_too():
    # A record whose AUC alone had changed was said to be equal in every number.
    compared = runpy.run_path(str(CHECKOUT / "scripts" / "replay.py"))["_compared"]
    before = dict.fromkeys(COLUMNS) | {"draws": 3, "device": "cpu", "auc": 0.75}
    found = compared(before, {"draws": 3, "auc": 0.75, "response_accuracy": 0.5}, "cpu")
    assert (found["verdict"], found["why"]) == ("equal", "every number")
    found = compared(before, {"draws": 3, "auc": 0.5}, "cpu")
    assert (found["verdict"], found["why"]) == ("differs", "auc 0.75 -> 0.5")
    found = compared(before, {"draws": 3, "auc": 0.75003}, "cpu")
    assert (found["verdict"], found["why"]) == ("close", "auc 0.75 -> 0.75003")
    assert compared(before, {"draws": 3, "auc": None}, "cpu")["verdict"] == "differs"


def test_an_earlier_run_does_not_pass_for_the_new_one(replay, tmp_path, capsys):
    # The sweep took it for done, and the record was compared with itself.
    out = f"out_dir={tmp_path / 'runs'}"
    assert replay("n=1", out) == 0
    capsys.readouterr()
    assert replay("n=1", out) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: out_dir must have no run of a chosen record, and ")
