"""Features learnt without labels, and the linear classifier on them."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from labeldp.mechanisms import LabelEnhancement, RandomizedResponse
from labeldp.store import LabelStore
from labeldp.support.last_results import LastResults
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.learners.ple import EnhancedLabels
from labeldp_bench.models.encoders import Encoder
from labeldp_bench.models.linear_heads import Probe, TrainedHead
from labeldp_bench.pretraining.simclr import SimCLRFit, nt_xent
from labeldp_bench.records.record import read_record
from labeldp_bench.runs import job
from labeldp_bench.runs.job import run_cells
from labeldp_bench.training.augment import PadCrop
from labeldp_bench.training.trainer import Trainer
from tests.learning import accuracy, record_of, released, session

DATA = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "mechanism=rappor", "eps=4"]
SHORT = ["epochs=2", "batch_size=64", "precision=float32", "augment=[]"]
TINY = [*DATA, "model=probe", *(f"pretrain.trainer.{text}" for text in SHORT)]
TIMED = ("wall_seconds", "device", "checksum")


def test_loss_equals_a_loop_and_falls_as_views_agree():
    # A view would be compared with itself, or with another image's view.
    projected = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    directions = projected / projected.norm(dim=1, keepdim=True)
    for i, loss in enumerate(nt_xent(projected, 0.5)):
        similar = [float(directions[i] @ directions[j]) / 0.5 for j in range(8)]
        others = sum(np.exp(similar[j]) for j in range(8) if j != i)
        assert float(loss) == pytest.approx(-similar[(i + 4) % 8] + np.log(others), abs=1e-5)
    agreeing = torch.eye(4).repeat(2, 1)
    others = torch.cat([agreeing[:4], agreeing[:4].roll(1, 0)])
    assert nt_xent(agreeing, 0.1).max() < 1e-3 < 9 < nt_xent(others, 0.1).min()


def run(overrides, environment):
    return record_of(compose_cell([*TINY, *overrides]), environment)


def test_pretraining_sees_no_label_and_is_done_once(environment):
    # Its weights would leak labels past the budget, or every cell would train them again.
    first = run([], environment)
    assert first["pretrain"] == "simclr" and first["eps_spent"] == 4
    assert [entry["mechanism"] for entry in first["ledger"]] == ["Rappor"]
    folder = environment.data_dir / "pretrained"
    (path,) = folder.glob("*.safetensors")
    weights = load_file(path)
    second = run(["mechanism=rr", "seed=1"], environment)
    assert second["notes"]["pretrained_sha256"] == first["notes"]["pretrained_sha256"]
    assert first["notes"]["pretrained_precision"] in ("bf16", "float32")  # what auto came to
    with np.load(environment.data_dir / "tiny.npz") as archive:
        arrays = dict(archive)
    path.unlink()
    changed = arrays | {"y_train": np.roll(arrays["y_train"], 1)}
    np.savez(environment.data_dir / "tiny.npz", **changed)
    run(["seed=2"], environment)
    again = load_file(path)
    assert all(torch.equal(again[name], values) for name, values in weights.items())
    np.savez(environment.data_dir / "tiny.npz", **changed | {"x_train": 255 - arrays["x_train"]})
    run(["seed=3"], environment)
    assert len(list(folder.glob("*.safetensors"))) == 2  # other images, another network


def probe(kind=Probe, **given):
    """Returns a probe whose network hands 25 pixels on, and 400 images of two classes."""

    class Pixels(nn.Module):
        def __init__(self, num_classes, image_shape):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(()))
            self.head = nn.Linear(25, num_classes)

        def forward(self, images):
            return self.head(self.gain * images.flatten(1))

    draws = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (400,), generator=draws)
    images = torch.randint(0, 120, (400, 5, 5, 1), generator=draws)
    images[:, 0, 0, 0] += 100 * labels
    return kind(Pixels, initial={}, **given), images.to(torch.uint8), labels


def supervision_of(labels, eps):
    return released(RandomizedResponse(eps), labels, "marginal", classes=2)


def test_classifier_is_where_loss_and_penalty_are_least():
    # A fit that stops early would depend on where it starts.
    model, images, labels = probe(penalties=[0.01])
    supervision = supervision_of(labels, 2.0)
    fitted = model.fit(images, supervision, session())
    weights = fitted.weights.clone().requires_grad_()
    inputs = fitted.encoder(images)
    assert inputs.mean(0).abs().max() < 1e-4 and (inputs.std(0) - 1).abs().max() < 1e-3
    logits = inputs @ weights[:-1] + weights[-1]
    loss = supervision.loss(logits, supervision.targets).mean()
    (loss + 0.005 * weights[:-1].square().sum()).backward()
    assert weights.grad.abs().max() < 1e-3
    assert accuracy(fitted, images, labels) > 0.9
    assert torch.allclose(fitted.probabilities(images).sum(1), torch.ones(400).double())


RECIPE = Trainer(epochs=30, batch_size=50, optimizer=partial(torch.optim.SGD, lr=0.1),
                 selection="best_validation", precision="float32")  # fmt: skip


def test_a_trained_head_sees_features_and_reports_on_images():
    # An epoch would be scored, or chosen, by a classifier that takes features for images.
    model, images, labels = probe(TrainedHead, trainer=RECIPE)
    seen, chosen = [], []

    def validate(classifier):
        chosen.append(accuracy(classifier, images, labels))
        return chosen[-1]

    heard = replace(session(), on_epoch=lambda _, each: seen.append(accuracy(each, images, labels)))
    supervision = replace(supervision_of(labels, 2.0), validate=validate)
    fitted = model.fit(images, supervision, heard)
    assert accuracy(fitted, images, labels) == max(chosen) > 0.9
    assert seen == chosen and len(seen) == 30


def test_a_trained_head_refuses_what_is_done_to_images():
    crop = replace(RECIPE, augment=[PadCrop(padding=4, mode="reflect")])
    with pytest.raises(InputError, match=r"trainer\.augment=\[\]"):
        probe(TrainedHead, trainer=crop)


def test_ple_learns_from_features():
    model, images, labels = probe(TrainedHead, trainer=RECIPE)
    store, mechanism = LabelStore(labels, 2), LabelEnhancement(k1=2, randomness=0.5)
    client = replace(RECIPE, selection="last")
    learner = EnhancedLabels("plain", client, k2=2)
    learner.check(mechanism, model)
    fitted = learner.fit(images, store.open(math.inf, 0), mechanism, model, session())
    assert accuracy(fitted, images, labels) > 0.9


BY_EVIDENCE = {"components": 30, "powers": [0, 1]}


@pytest.mark.parametrize("given", [{}, BY_EVIDENCE])
def test_noise_asks_for_a_larger_penalty_and_only_releases_choose(given):
    # At small eps the classifier would learn the noise.
    chosen = {}
    for eps in (0.3, 20.0):
        notes = session()
        model, images, labels = probe(penalties=[1.0, 1e-4], **given)
        model.fit(images, supervision_of(labels, eps), notes)
        chosen[eps] = notes.notes["penalty"]
    assert chosen == {0.3: 1.0, 20.0: 1e-4}


def test_components_limit_the_fit_to_the_directions_in_which_features_vary_most():
    # Those of least variance would be kept, or the weights belong to other features.
    model, images, labels = probe(penalties=[0.01])
    supervision = supervision_of(labels, 2.0)
    whole = model.fit(images, supervision, session())
    turned = replace(model, components=30).fit(images, supervision, session())
    assert torch.allclose(turned.scores(images), whole.scores(images), atol=1e-3)
    few = replace(model, components=10).fit(images, supervision, session())
    *_, directions = torch.linalg.svd(few.encoder(images), full_matrices=False)
    assert (directions[10:] @ few.weights[:-1]).abs().max() < 1e-4
    assert (directions[:10] @ few.weights[:-1]).abs().max() > 1e-2


def test_powers_let_weights_be_larger_where_features_vary_more():
    # The prior would favour other directions, or weights would belong to other features.
    generator = torch.Generator().manual_seed(0)
    few = torch.rand((400, 1, 1, 1), generator=generator)
    images = (100 * few + 20 * torch.rand((400, 5, 5, 1), generator=generator)).to(torch.uint8)
    labels = (few[:, 0, 0, 0] > 0.5).long()
    model, *_ = probe(penalties=[0.1], components=25, powers=[1])
    supervision = supervision_of(labels, 1.0)
    favoured = model.fit(images, supervision, session())
    notes = session()
    alike = replace(model, powers=[0]).fit(images, supervision, session())
    without = replace(model, powers=None).fit(images, supervision, session())
    assert torch.allclose(alike.scores(images), without.scores(images), atol=1e-3)
    *_, directions = torch.linalg.svd(alike.encoder(images), full_matrices=False)

    def share_of_leading(fitted):
        squares = (directions @ fitted.weights[:-1]).square().sum(1)
        return float(squares[0] / squares.sum())

    assert share_of_leading(favoured) > share_of_leading(alike) + 0.02
    replace(model, powers=[0, 1]).fit(images, supervision, notes)
    assert notes.notes["power"] == 1  # as the labels follow from the leading direction alone


def encodings(monkeypatch):
    """Returns a list that gets an entry for each time that all images go through a network."""
    made = []
    real = Encoder.fitted_to.__func__
    monkeypatch.setattr(
        Encoder, "fitted_to", classmethod(lambda *given: made.append(1) or real(*given))
    )
    monkeypatch.setattr(job, "_LAST_MODEL", LastResults())  # of the test before
    return made


@pytest.mark.parametrize("model", ["probe", "graph_gaussian_process"])
def test_jobs_of_other_seeds_encode_the_images_once(environment, monkeypatch, tmp_path, model):
    # Five seeds of one sweep would encode the same images five times, or depend on their order.
    made = encodings(monkeypatch)
    seeds = [["pretrain=simclr", f"model={model}", f"seed={seed}"] for seed in range(2)]
    cells = [compose_cell([*TINY, *seeds[0], f"mechanism={name}"]) for name in ("rr", "rappor")]
    assert len({cell.shared_work for cell in cells}) == 1
    assert run_cells(cells, environment) == 0
    first = read_record(environment.out_dir / cells[0].folder)
    second = run(seeds[1], environment)
    assert len(made) == 1
    assert second["notes"]["pretrained_sha256"] == first["notes"]["pretrained_sha256"]
    job._LAST_MODEL.clear()
    alone = run(seeds[1], replace(environment, out_dir=tmp_path / "alone"))
    assert len(made) == 2
    assert {**alone, **dict.fromkeys(TIMED)} == {**second, **dict.fromkeys(TIMED)}


@pytest.mark.parametrize("other", [["pretrain.trainer.epochs=1"], ["dataset.limit_train=100"]])
def test_jobs_that_differ_in_more_than_the_seed_share_no_features(environment, monkeypatch, other):
    # The second would be fitted to features of other images, or of another network.
    made = encodings(monkeypatch)
    run([], environment)
    run(["seed=1", *other], environment)
    assert len(made) == 2


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("given", [{"held_out": 0.9}, BY_EVIDENCE])
def test_few_examples_give_numbers(count, given):
    # The mean loss of nothing is not a number, and would choose the first penalty.
    model, images, labels = probe(**given)
    fitted = model.fit(images[:count], supervision_of(labels[:count], 2.0), session())
    assert fitted.scores(images).isfinite().all()


@pytest.mark.parametrize("given", [{"penalties": [0.1]}, BY_EVIDENCE])
def test_weights_that_are_no_numbers_end_the_run(given):
    model, images, labels = probe(**given)
    supervision = supervision_of(labels, 2.0)
    supervision.targets.fill_(math.nan)
    with pytest.raises(Diverged, match="NaN or infinite"):
        model.fit(images, supervision, session())


class Interrupted(Exception):
    """Stands for a power cut."""


def test_pretraining_without_checkpoints_ends_and_leaves_none(environment):
    # checkpoint_epochs=0, which the page on GPUs recommends, was a division by zero.
    run(["seed=3"], replace(environment, checkpoint_epochs=0))
    left = {path.suffix for path in (environment.data_dir / "pretrained").iterdir()}
    assert left <= {".safetensors", ".lock"}


def test_interrupted_pretraining_goes_on_bit_for_bit(environment, monkeypatch):
    # An hour would start afresh, or views would repeat.
    views = "[{_target_: labeldp_bench.training.augment.Affine}]"
    overrides = [f"pretrain.trainer.augment={views}", "pretrain.stored=float16"]
    overrides += ["pretrain.trainer.epochs=3"]
    folder = environment.data_dir / "pretrained"
    environment = replace(environment, checkpoint_epochs=1)
    run(overrides, environment)
    (path,) = folder.glob("*.safetensors")
    whole = load_file(path)
    assert {values.dtype for values in whole.values()} == {torch.float16}
    content = path.read_bytes()  # its hash is in the record
    path.unlink()
    begin, begun = SimCLRFit.begin_epoch, []

    def cut(fit):
        begun.append(1)
        if len(begun) == 2:
            raise Interrupted
        begin(fit)

    monkeypatch.setattr(SimCLRFit, "begin_epoch", cut)
    failed = compose_cell([*TINY, *overrides, "seed=1"])
    assert run_cells([failed], environment) == 1
    assert len(list(folder.glob("*.checkpoint.pt"))) == 1 and not path.exists()
    run([*overrides, "seed=2"], environment)
    assert len(begun) == 4  # the first, the one that was cut, and the two that were left
    again = load_file(path)
    assert all(torch.equal(again[name], values) for name, values in whole.items())
    assert path.read_bytes() == content
    assert not list(folder.glob("*.checkpoint.pt"))
