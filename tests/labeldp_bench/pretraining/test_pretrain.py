"""Pre-training: trained once, read back, refused where it makes no sense."""

import csv
import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models.convolutional import CNN, LinearClassifier
from labeldp_bench.models.resnets import ResNet
from labeldp_bench.pretraining import weights
from labeldp_bench.pretraining.recipes import Pretraining
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.training.fit import below_classifier
from labeldp_bench.training.trainer import Trainer
from tests.images import write_noise
from tests.learning import record_of

SHORT = ["trainer.epochs=1", "trainer.batch_size=32", "trainer.precision=float32"]
TINY = ["model.network.width=4", "model.network.blocks=[1]", *SHORT]
TINY += [f"pretrain.{text}" for text in SHORT]


@pytest.fixture
def environment(tmp_path):
    """Where cells on a `cifar10.npz` and a `cifar100.npz` of 16 x 16 noise run."""
    (tmp_path / "data").mkdir()
    write_noise(tmp_path / "data", train=100)
    return Environment(tmp_path / "runs", tmp_path / "data", torch.device("cpu"))


def tiny_cell(*overrides):
    return compose_cell(["dataset=cifar10", "mechanism=lp_1st_star", *TINY, *overrides])


def weights_file(environment):
    (path,) = (environment.data_dir / "pretrained").glob("*.safetensors")
    return path


def test_a_second_run_reads_the_weights_and_trains_none(environment, monkeypatch):
    # 200 epochs of pre-training would be repeated for every seed.
    first = record_of(tiny_cell(), environment)
    path = weights_file(environment)
    written = path.stat().st_mtime_ns
    monkeypatch.setattr(Pretraining, "train", lambda *_: pytest.fail("trained again"))
    second = record_of(tiny_cell("seed=1"), environment)
    assert path.stat().st_mtime_ns == written
    assert len({each["notes"]["pretrained_sha256"] for each in (first, second)}) == 1
    assert 0 <= float(second["notes"]["pretrained_test_accuracy"]) <= 1
    assert first["pretrain"] == "cifar100"
    assert first["trust"] == "local" and first["eps_spent"] == 1
    assert first["config_hash"] != second["config_hash"]
    # Epochs on the public set are no epochs of the run.
    with (environment.out_dir / tiny_cell().folder / "history.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1"]
    assert first["epochs"] == 1 and first["n_train"] == 100
    # Nobody could tell which of many files belongs to which recipe.
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
    assert json.loads(about["recipe"]) == tiny_cell().pretrain_recipe
    assert 0 <= float(about["test_accuracy"]) <= 1


def test_fit_starts_from_the_weights_and_from_a_new_classifier(environment, monkeypatch):
    # Everything would be random after all, or the classifier of 100 classes would be kept.
    seen = []
    plain = Trainer.run

    def spy(self, fit, *rest):
        seen.append({k: v.clone() for k, v in fit.classifier.network.state_dict().items()})
        plain(self, fit, *rest)

    monkeypatch.setattr(Trainer, "run", spy)
    record_of(tiny_cell(), environment)
    stored = load_file(weights_file(environment))
    before_pretraining, before_training = seen
    assert before_pretraining["head.weight"].shape == (100, 4)
    assert before_training["head.weight"].shape == (10, 4)
    assert {*before_training} - {*stored} == {"head.weight", "head.bias"}
    assert all(torch.equal(before_training[name], stored[name]) for name in stored)
    assert not torch.equal(stored["stem.0.weight"], before_pretraining["stem.0.weight"])
    assert stored["stem.1.num_batches_tracked"] == 4  # statistics come along


def test_another_recipe_is_another_file(environment):
    # A network of two epochs would be taken for one of 200.
    record_of(tiny_cell(), environment)
    record_of(tiny_cell("pretrain.trainer.epochs=2"), environment)
    record_of(tiny_cell("model.network.width=8"), environment)
    record_of(tiny_cell("eps=2", "trainer.batch_size=64"), environment)  # no part of the recipe
    assert len(list((environment.data_dir / "pretrained").glob("*.safetensors"))) == 3


def test_the_same_weights_are_the_same_bytes(tmp_path):
    # Records hold the file's hash: those of one run made twice would differ.
    tensors = {name: torch.arange(3.0) + len(name) for name in ("b", "aa", "ccc")}
    notes = {f"note_{number}": str(number) for number in range(5)}
    (content,) = {weights._in_order(save(tensors, notes)) for _ in range(9)}
    (tmp_path / "0").write_bytes(content)
    read = weights.read(tmp_path / "0")
    assert all(torch.equal(read.tensors[name], values) for name, values in tensors.items())
    assert read.notes["pretrained_note_4"] == "4"


@pytest.mark.parametrize(
    ("network", "left_out"),
    [
        (ResNet(10, (8, 8, 3), width=4, preactivation=True), {"head.weight", "head.bias"}),
        (CNN(10, (8, 8, 1), widths=(4, 4), hidden=8), {"head.3.weight", "head.3.bias"}),
    ],
)
def test_only_the_last_layer_is_left_behind(network, left_out):
    assert {*network.state_dict()} - {*below_classifier(network)} == left_out
    with pytest.raises(InputError, match="more than one layer"):
        below_classifier(LinearClassifier(10, (8, 8, 3)))


def test_images_of_another_shape_are_refused_before_the_training(environment, monkeypatch, capsys):
    # Hours of pre-training would end in the same line.
    grey = np.zeros((20, 16, 16), dtype=np.uint8)
    labels = np.arange(20, dtype=np.int64) % 10
    arrays = dict(x_train=grey, y_train=labels, x_test=grey, y_test=labels)
    np.savez(environment.data_dir / "mnist.npz", **arrays)
    monkeypatch.setattr(Trainer, "run", lambda *_: pytest.fail("trained"))
    cell = tiny_cell("dataset=mnist", "model=resnet18")
    assert run_cells([cell], environment) == 1
    assert "stem.0.weight" in capsys.readouterr().err
