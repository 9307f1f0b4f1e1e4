"""Benchmarks of training: a table, and a textbook loop that does the same job."""

import contextlib
import csv
import functools
import json
import sys

import pytest
import torch

from benchmarks import trainers, training
from benchmarks.limits import work_per_image
from benchmarks.textbook import textbook_accuracy, textbook_rate
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.shell import records_under


def test_benchmark_prints_and_writes_one_row_per_network(tmp_path, capsys):
    # Numbers without hardware and versions cannot be compared with anyone's.
    options = ["model=linear", "budget=quick", "device=cpu", "precision=float32"]
    assert training.main([*options, f"out={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert "| linear | 28x28x1 | vector_approximation | 400 | eager | 7,850 |" in said
    (path,) = tmp_path.iterdir()
    assert path.name == "training_cpu.csv"
    with path.open() as file:
        (row,) = csv.DictReader(file)
    rates = [float(row[f"{kind}images_per_second"]) for kind in ("", "textbook_")]
    assert min(rates) > 0
    assert float(row["over_textbook"]) == pytest.approx(rates[0] / rates[1], rel=0.01)
    assert float(row["seconds_per_epoch"]) == pytest.approx(60_000 / rates[0], rel=0.01, abs=0.01)
    assert float(row["matmul_share"]) > 0 and float(row["copy_share"]) > 0
    assert float(row["peak_mib"]) > 100
    assert (row["steps"], row["precision"]) == ("3", "float32")
    assert row["torch_version"] == torch.__version__
    assert row["python_version"].startswith(f"{sys.version_info[0]}.")


def test_work_of_a_linear_layer_is_counted_exactly():
    # A share of the ceiling would be of other work than the network's.
    network = torch.nn.Linear(10, 4, bias=False)
    batch = torch.zeros(8, 10)
    flops, moved = work_per_image(network, batch, contextlib.nullcontext())
    assert flops == 2 * (2 * 10 * 4)  # forward, and the gradient of the weights
    assert moved >= 2 * 4 * (10 + 4)  # reads the image, writes the scores, twice


class Noted(torch.nn.Sequential):
    """A linear classifier that notes in which mode each batch meets it."""

    def __init__(self):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 3))
        self.calls = []

    def forward(self, images):
        self.calls.append((self.training, torch.backends.cudnn.allow_tf32, len(images)))
        return super().forward(images)


@pytest.fixture
def pictures():
    return torch.randint(256, (12, 8, 8, 1), dtype=torch.uint8), torch.arange(12) % 3


def test_textbook_loop_is_asked_in_evaluation_mode(pictures, monkeypatch):
    # Dropout and batch statistics in the test would make the loop look worse than it is.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    network, adam = Noted(), functools.partial(torch.optim.Adam, lr=0.1)
    found = textbook_accuracy(network, pictures, pictures, 5, 20, adam, torch.device("cpu"))
    trained, asked = ([(mode, True, size) for size in (5, 5, 2)] for mode in (True, False))
    assert network.calls == trained * 20 + asked
    assert found == 1.0
    assert not torch.backends.cudnn.allow_tf32


def test_textbook_loop_trains(pictures, monkeypatch):
    # A ratio against a loop that does nothing flatters.
    network = Noted()
    before = network[1].weight.clone()
    images, labels = pictures
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    rate = textbook_rate(network, images, labels, 4, True, torch.device("cpu"), 2)
    assert rate > 0
    assert network.calls == [(True, True, 4)] * 3
    assert not torch.equal(network[1].weight, before)
    assert not torch.backends.cudnn.allow_tf32


DATA = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3"]
TINY = [*DATA, "model=linear", "eps=6", "trainer.batch_size=10"]


def test_both_learn_and_ours_is_the_accuracy_of_the_run(tiny_images, tmp_path, capsys):
    # The comparison would be of something else than what the records say.
    arguments = [*TINY, "trainer.epochs=20", f"data_dir={tiny_images}", "device=cpu"]
    assert trainers.main([*arguments, "seed=0,1", f"out={tmp_path}"]) == 0
    assert "| textbook accuracy |" in capsys.readouterr().out
    with (tmp_path / "trainers_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = [
        compose_cell([*arguments[:-2], "mechanism=rr", f"seed={seed}", f"data_dir={tiny_images}"])
        for seed in (0, 1)
    ]
    for cell, row in zip(cells, rows, strict=True):
        folder = tmp_path / row["seed"]
        assert run_cells([cell], Environment(folder, tiny_images, torch.device("cpu"))) == 0
        (record,) = records_under(folder)
        accuracy = json.loads(record.read_text())["accuracy"]
        assert float(row["accuracy"]) == pytest.approx(accuracy, abs=1e-4)
        assert min(accuracy, float(row["textbook_accuracy"])) > 0.7


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("mechanism=rappor", "mechanism=rr"),
        ("learner.retrain=consensus", "mechanism=rr"),
        ("pretrain=simclr", "pretrain=none"),
        ("model=knn", "model=cnn"),
        ("trainer=blockrr", "trainer.augment"),
        ("trainer.average=0.9", "trainer.average"),
    ],
)
def test_what_has_no_textbook_form_is_refused(option, named, tmp_path, capsys):
    model = [] if option == "model=knn" else ["model=cnn"]
    given = [*DATA, *model, option, f"out={tmp_path}", f"data_dir={tmp_path}"]
    assert trainers.main(given) == 2
    assert named in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
