"""The training benchmark: a table, and a file that says on what it was measured."""

import contextlib
import csv
import functools
import sys

import pytest
import torch

from benchmarks.textbook import textbook_accuracy, textbook_rate
from benchmarks.training import main
from benchmarks.work import per_image


def test_benchmark_prints_and_writes_one_row_per_network(tmp_path, capsys):
    # Numbers without hardware and versions cannot be compared with anyone's.
    options = ["model=linear", "budget=quick", "device=cpu", "precision=float32"]
    assert main([*options, f"out={tmp_path}"]) == 0
    assert (
        "| linear | 28x28x1 | vector_approximation | 400 | eager | 7,850 |"
        in capsys.readouterr().out
    )
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


def test_unknown_network_is_refused(capsys):
    assert main(["model=resnet19"]) == 2
    assert "got 'resnet19' (did you mean resnet18?)" in capsys.readouterr().err
    assert main(["model="]) == 2
    assert "model must be one of" in capsys.readouterr().err


def test_work_of_a_linear_layer_is_counted_exactly():
    # A share of the ceiling would be of other work than the network's.
    network = torch.nn.Linear(10, 4, bias=False)
    batch = torch.zeros(8, 10)
    flops, moved = per_image(network, batch, contextlib.nullcontext())
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
    assert network.calls == [(True, True, 5), (True, True, 5), (True, True, 2)] * 20 + [
        (False, True, 5), (False, True, 5), (False, True, 2)
    ]  # fmt: skip
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
