"""The circle benchmark: all paths do the same job, and the file says where it was measured."""

import csv

import pytest

from benchmarks.circle import TRIALS, main


def test_every_path_is_timed_on_the_same_job(tmp_path, capsys, monkeypatch):
    # A path that classified worse would be fast for nothing.
    monkeypatch.setitem(TRIALS, "quick", 1)  # 4,000 answers of each path, after as many not counted
    assert main(["num_classes=10", "budget=quick", f"out={tmp_path}"]) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "circle_cpu.csv"
    with path.open() as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert "tree" in rows
    for row in rows.values():
        stages = sum(float(row[f"{stage}_ms"]) for stage in ("search", "noise", "votes"))
        assert float(row["total_ms"]) == pytest.approx(stages, rel=0.5)
        assert row["device"] and row["torch_version"] and row["threads"] == "1"
        accuracy = float(rows["tree"]["mean_accuracy"])
        assert float(row["mean_accuracy"]) == pytest.approx(accuracy, abs=0.005)
    assert "| 10 | tree |" in capsys.readouterr().out


@pytest.mark.parametrize("classes", ["1", "99999999"])
def test_what_makes_no_circle_is_refused(classes, capsys):
    assert main([f"num_classes=10,{classes}"]) == 2
    assert f"num_classes must be in [2, 1000], got {classes}" in capsys.readouterr().err
