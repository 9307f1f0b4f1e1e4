"""Models that come trained: what they say of themselves is true, and what is missing is told."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import labeldp_bench as ldp
from labeldp_bench.models.eigenmaps import EigenmapClassifier
from labeldp_bench.models.embedding import Embedding, Places
from labeldp_bench.models.knn import NeighbourSearch
from labeldp_bench.models.smooth_functions import SmoothFunctions
from labeldp_bench.records.collect import read_committed
from labeldp_bench.support.validate import InputError
from labeldp_bench.trained import forms, pack
from labeldp_bench.trained import load as loading

NAMES = loading.available()


def test_there_are_models_and_together_they_are_small():
    assert len(NAMES) >= 3
    assert sum(loading.file_of(name).stat().st_size for name in NAMES) <= 10_000_000


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_of_a_committed_record_and_as_good(name):
    model = ldp.load(name)
    committed = read_committed()[model.record["config_hash"]]
    assert model.record["committed_accuracy"] == committed["accuracy"]
    assert model.record["shipped_accuracy"] == pytest.approx(committed["accuracy"], abs=0.005)
    assert model.record["private"] and model.record["eps_spent"] <= float(name.split("eps=")[1])
    images = np.zeros((3, *model.image_shape), np.uint8)
    images[1:] = np.random.default_rng(0).integers(0, 255, images[1:].shape)
    assert model.predict(images).shape == (3,) and model.predict(images).dtype == np.int64
    assert model.predict_proba(images).sum(1) == pytest.approx(np.ones(3))
    assert name in repr(model)


def test_images_of_another_kind_are_refused_in_one_line():
    model = ldp.load(NAMES[0])
    with pytest.raises(InputError, match=r"must be uint8, from 0 to 255, got torch.float64"):
        model.predict(np.zeros((2, 28, 28)))
    with pytest.raises(InputError, match=r"must have shape \(N, 28, 28\), got \(2, 9, 9\)"):
        model.predict(np.zeros((2, 9, 9), np.uint8))


def test_what_is_not_shipped_says_how_to_train_it():
    with pytest.raises(InputError, match=r"to train it: python -m labeldp_bench .*load takes: "):
        ldp.load("mnist/rr/cnn/eps=1")
    with pytest.raises(InputError, match=r"no trained model 'mnist'.*load takes: fashion_mnist"):
        ldp.load("mnist")
    with pytest.raises(InputError, match="no trained model 3"):
        ldp.load(3)


def test_a_damaged_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "WEIGHTS", tmp_path)
    (tmp_path / "a__b.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match=r"a__b.safetensors is damaged: .* \(fetch it again"):
        ldp.load("a/b")


def test_a_packed_graph_says_what_the_whole_one_says():
    # Compression, or the order of steps in it, would change what smooth functions predict.
    generator = torch.Generator().manual_seed(0)
    search = NeighbourSearch()
    images = torch.randint(0, 255, (300, 5, 5, 1), generator=generator, dtype=torch.uint8)
    images[150:] //= 3
    mean = images.flatten(1).float().mean(0)
    points = torch.nn.functional.normalize(images.flatten(1).float() - mean)
    smooth = SmoothFunctions.over(points, 5, 4, search)
    weights = torch.randn(smooth.values.shape[1], 3, generator=generator, dtype=torch.float64)
    whole = EigenmapClassifier(Embedding(smooth, Places(points, None, mean)), weights)
    form, settings, tensors = pack.packed(whole)
    stored = forms.NeighbourScores.of(settings, tensors)
    assert form == "neighbours" and tensors["points"].dtype == torch.int8
    # The same where neighbours are the same; eight bits move a few of them.
    difference = (stored.scores(images) - whole.scores(images)).abs()
    assert difference.median() < 0.02 * whole.scores(images).std()


def test_what_has_no_small_form_is_refused():
    with pytest.raises(InputError, match="SimpleNamespace has no small form"):
        pack.packed(SimpleNamespace())


def test_the_best_of_several_rows_is_taken():
    rows = [
        {"dataset": "a", "mechanism": "b", "model": "c", "eps": 1.0, "accuracy": accuracy}
        for accuracy in (0.2, 0.7, 0.5)
    ]
    assert loading.row_of("a/b/c/eps=1", json.loads(json.dumps(rows)))["accuracy"] == 0.7
    assert loading.row_of("a/b/c/eps=2", rows) is None
