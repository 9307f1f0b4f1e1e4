"""Benchmarks at a toy size: what each writes, and that its baseline does the same job."""

import contextlib
import csv
import inspect
import io
import math
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import labeldp as ldp
from benchmarks import commands, coverage, scale, training
from benchmarks import mechanisms as speeds
from benchmarks.scale import entropy, needed_bits
from labeldp import mechanisms


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


def test_commands_stand_beside_their_baselines(rows_of, monkeypatch):
    def in_process(line, **_):
        monkeypatch.setattr(sys, "argv", line[2:])
        monkeypatch.setattr("labeldp.privatization._PROGRAM", ldp.Ledger())
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(line[2], {})
        return subprocess.CompletedProcess(line, 0, said.getvalue())

    # Each would import torch again.
    monkeypatch.setattr(commands, "subprocess", SimpleNamespace(run=in_process))
    rows = rows_of(commands, "rows=50", "fit_rows=300")
    assert [row["baseline"].split()[0] for row in rows] == [
        "import", "pandas.read_csv", "pandas.read_csv", "5", "LogisticRegression", "accuracy,"
    ]  # fmt: skip
    assert all(float(row["times_baseline"]) > 0 for row in rows)


def test_work_is_measured_in_a_process_of_its_own():
    # What this process has used already would hide what the command takes.
    seconds, peak = commands.work("assert sys.argv[1:] == ['5']; b'x' * 50 * 2**20", 5, times=2)
    assert 0 < seconds < time.process_time() and 50 < peak / 2**20 < 100


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
        (scale, "classes=10,1", "classes"),
        (speeds, "labels=0", "labels"),
        (training, "model=cnn,transformer", "transformer"),
    ],
)
def test_what_cannot_be_measured_is_one_line(module, option, named, tmp_path, capsys):
    assert module.main([option, f"out={tmp_path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line and not list(tmp_path.iterdir())


def test_coverage_counts_how_often_intervals_hold(tmp_path, monkeypatch):
    assert len(coverage.SETTINGS) == 12
    monkeypatch.setattr(coverage, "POPULATION", 2_000)
    monkeypatch.setattr(coverage, "SETTINGS", coverage.SETTINGS[2::6])
    assert coverage.main(["simulations=1", "fits=1", f"out={tmp_path}"]) == 0
    table = pd.read_csv(tmp_path / "metric_coverage.csv")
    assert table[["classes", "rows"]].drop_duplicates().values.tolist() == [[2, 500], [5, 500]]
    assert {"roc_auc", "fit: accuracy"} <= {*table.metric}
    assert table.observed.dropna().isin([0, 1]).all() and table.observed.mean() > 0.7


def test_training_writes_one_row_per_network(rows_of, capsys):
    options = ["model=linear", "budget=quick", "device=cpu", "precision=float32"]
    (row,) = rows_of(training, *options)
    assert (
        "| linear | 28x28x1 | vector_approximation | 400 | eager | 7,850 |"
        in capsys.readouterr().out
    )
    ours, textbook = (float(row[f"{kind}images_per_second"]) for kind in ("", "textbook_"))
    assert min(ours, textbook) > 0
    assert float(row["over_textbook"]) == pytest.approx(ours / textbook, rel=0.01)
    assert float(row["seconds_per_epoch"]) == pytest.approx(60_000 / ours, rel=0.01, abs=0.01)
    assert float(row["peak_mib"]) > 100
    assert (row["steps"], row["precision"]) == ("3", "float32")


def test_the_textbook_loop_trains(monkeypatch):
    # A ratio against a loop that does nothing flatters.
    calls = []

    class Noted(torch.nn.Sequential):
        def forward(self, images):
            calls.append((self.training, torch.backends.cudnn.allow_tf32, len(images)))
            return super().forward(images)

    network = Noted(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    before = network[1].weight.clone()
    images, labels = torch.randint(256, (12, 8, 8, 1), dtype=torch.uint8), torch.arange(12) % 3
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    rate = training.textbook_rate(network, images, labels, 4, True, torch.device("cpu"), 2)
    assert rate > 0
    assert calls == [(True, True, 4)] * 3  # one untimed, two timed
    assert not torch.equal(network[1].weight, before)
    assert not torch.backends.cudnn.allow_tf32  # as a run had set it
