"""A run's trainer beside a textbook loop: one cell, one release, two ways to train."""

import csv
import json

import pytest
import torch

from benchmarks.trainers import main
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.shell import records_under

TINY = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "model=linear", "eps=6",
        "trainer.batch_size=10"]  # fmt: skip


def test_both_learn_and_ours_is_the_accuracy_of_the_run(tiny_images, tmp_path, capsys):
    # The comparison would be of something else than what the records say.
    arguments = [*TINY, "trainer.epochs=20", f"data_dir={tiny_images}", "device=cpu"]
    assert main([*arguments, "seed=0,1", f"out={tmp_path}"]) == 0
    assert "| textbook_accuracy |" in capsys.readouterr().out
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
    ("arguments", "message"),
    [
        (["mechanism=rappor"], "a textbook loop takes released labels as they are, once"),
        (["learner.loss=marginal"], "a textbook loop takes released labels as they are, once"),
        (["learner.retrain=consensus"], "a textbook loop takes released labels as they are, once"),
        (["learner=multi_stage"], "a textbook loop takes released labels as they are, once"),
        (["pretrain=simclr"], "a textbook loop starts at random weights (use pretrain=none)"),
        (["model=knn"], "only networks are trained in epochs (use model=cnn)"),
        (["trainer=blockrr"], "a textbook loop has another trainer.augment (use trainer="),
        (["trainer.pixels=unit"], "a textbook loop has another trainer.pixels"),
        (["trainer.average=0.9"], "a textbook loop has another trainer.average"),
        (["++trainer.resolution=[[0.5,0.5]]"], "a textbook loop has another trainer.resolution"),
        (["trainer.selection=mean_last_10"], "a textbook loop has another trainer.selection"),
    ],
)
def test_what_has_no_textbook_form_is_refused(arguments, message, tmp_path, capsys):
    model = [] if "model=knn" in arguments else ["model=cnn"]
    given = [*TINY[:3], *model, *arguments, f"out={tmp_path}", f"data_dir={tmp_path}"]
    assert main(given) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
