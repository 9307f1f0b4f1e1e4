"""Benchmarks of releases and searches do the same job as their baselines, and write it down."""

import csv
import inspect
import math

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import circle, commands, many_classes, penalties, scale, streaming
from benchmarks import mechanisms as speeds
from benchmarks.scale import entropy, needed_bits
from labeldp import mechanisms
from labeldp_bench.models.penalised import with_constant


@pytest.fixture
def rows_of(tmp_path):
    """Runs a benchmark; returns the rows of its CSV."""

    def run(module, *options):
        assert module.main([*options, f"out={tmp_path}"]) == 0
        (path,) = tmp_path.glob("*.csv")
        assert path.name == f"{module.__name__.split('.')[-1]}_cpu.csv"
        with path.open() as file:
            rows = list(csv.DictReader(file))
        # Numbers without hardware and versions cannot be compared with anyone's.
        assert all(row["device"] and row["torch_version"] and row["threads"] for row in rows)
        return rows

    return run


def test_every_path_of_the_circle_is_timed_on_the_same_job(rows_of, capsys, monkeypatch):
    # A path that classified worse would be fast for nothing.
    monkeypatch.setitem(circle.TRIALS, "quick", 1)  # 4,000 answers, after as many not counted
    theirs, ours = rows_of(circle, "num_classes=10", "budget=quick")
    assert (theirs["path"], ours["path"]) == ("scikit-learn", "tree")
    for row in (theirs, ours):
        stages = sum(float(row[f"{stage}_ms"]) for stage in circle.STAGES)
        assert float(row["total_ms"]) == pytest.approx(stages, rel=0.5) and row["threads"] == "1"
    accuracies = [float(row["mean_accuracy"]) for row in (theirs, ours)]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.005)
    assert "| 10 | tree |" in capsys.readouterr().out


def test_many_classes_are_learnt(rows_of, monkeypatch):
    # A process for each row imports torch: two of them show what eight would.
    monkeypatch.setattr(many_classes, "MECHANISMS", ("rr",))
    rows = rows_of(many_classes, "classes=3,40", "rows=60")
    assert [(row["mechanism"], row["num_classes"]) for row in rows] == [("rr", "3"), ("rr", "40")]
    assert [row["bytes_of_all_likelihoods"] for row in rows] == ["720", "9600"]  # float32 N x K
    assert all(int(row["peak_bytes"]) > 10**8 for row in rows)  # torch alone has more
    assert all(float(row[key]) > 0 for row in rows for key in ("fit_seconds", "predict_seconds"))


def test_a_file_is_released(rows_of):
    for row, kind in zip(
        rows_of(streaming, "rows=50", "classes=3"), ("parquet", "csv"), strict=True
    ):
        assert (row["file"], row["rows"], row["released_by"]) == (kind, "50", "rr")
        assert int(row["peak_bytes"]) > 10**8 and int(row["release_bytes"]) > 0


def test_commands_stand_beside_their_baselines(rows_of):
    rows = rows_of(commands, "rows=50", "fit_rows=300")
    assert [row["baseline"].split()[0] for row in rows] == [
        "import", "pandas.read_csv", "pandas.read_csv", "5"
    ]  # fmt: skip
    assert all(float(row["times_baseline"]) > 0.5 for row in rows)


def test_every_mechanism_is_measured(rows_of, capsys):
    # A mechanism without a speed would be one whose cost a user meets first in a long run.
    rows = rows_of(speeds, "labels=50")
    classes = {name: getattr(mechanisms, name) for name in mechanisms.__all__}
    of_class_labels = {
        name
        for name, each in classes.items()
        if issubclass(each, mechanisms.ClassMechanism)
        if not inspect.isabstract(each) and each.private
    }
    assert {row["mechanism"] for row in rows} == of_class_labels
    assert all(int(row[f"{kind}labels_per_second"]) > 0 for row in rows for kind in ("", "secret_"))
    assert "| Rappor | 100 |" in capsys.readouterr().out


@pytest.mark.parametrize("client", [speeds.plain_loop, speeds.opendp_client])
def test_baselines_draw_from_the_same_distribution(client):
    # Another distribution would be another job, and the ratio meaningless.
    if client is speeds.opendp_client:
        pytest.importorskip("opendp")
    flip = client(mechanisms.RandomizedResponse(eps=1.0), 4)
    assert sum(flip(2) == 2 for _ in range(4_000)) / 4_000 == pytest.approx(0.4754, abs=0.04)
    flips = client(mechanisms.Rappor(eps=1.0), 8)
    bits = [flips(2) for _ in range(2_000)]
    if client is speeds.opendp_client:
        bits = [[int.from_bytes(each, "big") >> i & 1 for i in range(8)] for each in bits]
    means = np.mean(bits, axis=0)
    assert means[[2, 3]] == pytest.approx([0.6225, 0.3775], abs=0.05)


def test_scale_measures_draws_and_writes(rows_of, tmp_path):
    rows = rows_of(scale, "classes=10,40", "labels=50", "seconds=1")
    assert {row["mechanism"] for row in rows} == {*scale.MECHANISMS}
    of_rr = [row["bytes_per_label"] for row in rows if row["mechanism"] == "rr"]
    assert of_rr == ["1", "1"]  # whatever K is
    assert (tmp_path / "scale.png").stat().st_size > 0


def test_sizes_are_what_the_distributions_say():
    for name in ("rr", "local_hashing", "hadamard"):
        growth, small = needed_bits(scale.MECHANISMS[name], 100)
        assert growth == "O(1)"
        assert needed_bits(scale.MECHANISMS[name], 100_000)[1] - small <= 11  # of log2(1000)
    assert entropy(0.5) == 1 and math.isclose(entropy(0.1), 0.468996, rel_tol=1e-5)
    growth, bits = needed_bits(scale.MECHANISMS["rappor"], 1000)
    assert growth == "O(K)" and 900 < bits < 1000


@pytest.mark.parametrize(
    ("module", "option", "named"),
    [
        (circle, "num_classes=10,1", "num_classes"),
        (circle, "num_classes=99999999", "num_classes"),
        (speeds, "labels=0", "labels"),
    ],
)
def test_what_cannot_be_measured_is_one_line(module, option, named, tmp_path, capsys):
    assert module.main([option, f"out={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line and not list(tmp_path.iterdir())


def test_rules_lose_on_the_best_penalty_and_never_gain(monkeypatch, tmp_path):
    # A rule that saw test labels would lose nothing.
    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(10, (600,), generator=draws)
    points = with_constant(torch.randn((600, 20), generator=draws) + 2 * torch.eye(10, 20)[labels])
    data = penalties.Data(points[:400], labels[:400], points[400:], labels[400:])
    monkeypatch.setattr(penalties, "load", lambda *given: data)
    options = ["dataset=mnist", "eps=1,8", "seeds=2", f"out={tmp_path}"]
    assert penalties.main(options) == 0
    table = pd.read_csv(tmp_path / "penalty_regret.csv")
    assert table.eps.tolist() == ["1.0"] * 5 + ["8.0"] * 5 + ["all"] * 5
    assert (table.mean_regret >= 0).all() and (table.mean_regret <= table.worst_regret).all()
    assert table.mean_regret.max() > 0
    assert table.largest_penalty.isin(penalties.PENALTIES).all()
