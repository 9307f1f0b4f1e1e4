"""The training benchmark: a table, and a file that says on what it was measured."""

import csv
import runpy
import sys

import pytest
import torch

from tests.conftest import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "bench_training.py"


@pytest.fixture
def main():
    return runpy.run_path(str(SCRIPT))["main"]


def test_benchmark_prints_and_writes_one_row_per_network(main, tmp_path, capsys):
    # Numbers without hardware and versions cannot be compared with anyone's.
    options = ["linear", "--quick", "--device", "cpu", "--precision", "float32"]
    assert main([*options, "--out", str(tmp_path)]) == 0
    assert "| linear | 28x28x1 | vector_approximation | 400 | 7,850 |" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    assert path.name == "training_cpu.csv"
    with path.open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["images_per_second"]) > 0
    assert (row["steps"], row["precision"]) == ("3", "float32")
    assert row["torch_version"] == torch.__version__
    assert row["python_version"].startswith(f"{sys.version_info[0]}.")


def test_unknown_network_is_refused(main, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["resnet19"])
    assert stop.value.code == 2
    assert "got resnet19" in capsys.readouterr().err
