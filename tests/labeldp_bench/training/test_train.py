"""The training loop against a textbook one."""

import functools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse, Rappor
from labeldp.supervision import Supervision
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.interfaces import Session
from labeldp_bench.models import CNN, ResNet
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.training.fit import resolve_precision
from labeldp_bench.training.images import channel_statistics
from labeldp_bench.training.network_fit import NetworkFit
from labeldp_bench.training.trainer import Trainer
from tests.training import CPU, SEED, fit, images_and_labels, supervision_of, trainer


@pytest.mark.parametrize(
    ("mechanism", "loss"), [(RandomizedResponse(1.0), "plain"), (Rappor(1.0), "bce")]
)
def test_ten_steps_equal_a_textbook_loop(mechanism, loss):
    # The functional step would be another algorithm; the last batch of 10 would be lost or
    # counted like a full one; hits would not be those of the released labels.
    images, labels = images_and_labels(110)
    supervision = supervision_of(labels, mechanism, loss)
    network = functools.partial(CNN, kernel_size=3, widths=[8, 8], hidden=16, dropout=0.5)
    classifier, epochs = fit(NetworkModel(network, trainer()), images, supervision)

    torch.manual_seed(seeding.derive(SEED, "train"))
    textbook = network(num_classes=3, image_shape=(8, 8, 1))
    adam = torch.optim.Adam(textbook.parameters(), lr=0.001)
    order = seeding.generator(SEED, "train", "order")
    pixels = images.double()
    inputs = ((pixels - pixels.mean()) / pixels.std(correction=0)).float().permute(0, 3, 1, 2)
    textbook.train()
    released = mechanism.log_likelihood
    for epoch in epochs:
        total = hits = 0.0
        for rows in torch.randperm(110, generator=order).split(25):
            logits = textbook(inputs[rows])
            targets = supervision.targets[rows]
            if loss == "plain":
                each = functional.cross_entropy(logits, targets, reduction="none")
            else:
                each = functional.binary_cross_entropy_with_logits(
                    logits, targets, reduction="none"
                ).sum(1)
            adam.zero_grad()
            each.mean().backward()
            adam.step()
            total += float(each.sum().detach())
            outputs = targets if loss == "plain" else targets.to(torch.uint8)
            centred_log_likelihood = released(outputs, 3)
            best = centred_log_likelihood == centred_log_likelihood.amax(1, keepdim=True)
            hits += sum(bool(best[i, c]) for i, c in enumerate(logits.argmax(1).tolist()))
        assert epoch.loss == pytest.approx(total / 110, abs=1e-5)
        assert epoch.released_hits == pytest.approx(hits / 110)
        assert epoch.lr == 0.001
        assert (epoch.total, epoch.num_examples) == (2, 110)
    assert [epoch.number for epoch in epochs] == [1, 2]
    trained = classifier.network.state_dict()
    for name, value in textbook.state_dict().items():
        assert torch.allclose(trained[name], value, atol=1e-5), name


def test_global_random_state_is_left_alone():
    # A run would depend on what ran before it in the same sweep.
    images, labels = images_and_labels(60)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    model = NetworkModel(functools.partial(CNN, widths=[4, 4], hidden=8), trainer(epochs=1))
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, _ = fit(model, images, supervision)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second, _ = fit(model, images, supervision)
    assert torch.equal(first.scores(images), second.scores(images))


def test_reports_hold_no_labels():
    # A learner or a log could read true labels from what is reported after an epoch.
    images, labels = images_and_labels(60)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    reports = []
    session = Session(SEED, CPU, lambda *given: reports.append(given), lambda text: None)
    model = NetworkModel(functools.partial(CNN, widths=[4, 4], hidden=8), trainer(epochs=1))
    model.fit(images, supervision, session)
    [(epoch, classifier)] = reports
    assert all(type(value) in (bool, int, float) for value in vars(epoch).values())
    held = [*vars(classifier).values(), *classifier.network.state_dict().values()]
    tensors = [value for value in held if isinstance(value, torch.Tensor)]
    assert all(tensor.dtype != torch.int64 or tensor.numel() < 2 for tensor in tensors)
    assert all(60 not in tensor.shape for tensor in tensors)


def test_three_brightnesses_are_learned_without_privacy(tiny_images, tiny_network):
    # The loop would run and not learn.
    cell = compose_cell(
        [*tiny_network, "mechanism=none", "trainer.epochs=8", "trainer.precision=float32"]
    )
    parts = cell.build()
    bundle = parts.dataset.draw(tiny_images, 0)
    release = bundle.store.open(math.inf, 0).release(parts.mechanism)
    supervision = Supervision.of([release], loss_named("plain"))
    classifier, epochs = fit(parts.model, bundle.train_features, supervision)
    predicted = classifier.scores(bundle.test_features).argmax(1)
    assert float((predicted == bundle.test_labels).double().mean()) > 0.9
    assert epochs[-1].loss < epochs[0].loss
    shares = classifier.probabilities(bundle.test_features)
    assert shares.dtype == torch.float64
    assert torch.allclose(shares.sum(1), torch.ones(len(shares), dtype=torch.float64))


def test_bf16_is_used_where_asked_for_and_learns():
    # A record would say bf16 while the network computed in float32, or the reverse.
    images, labels = images_and_labels(200)
    supervision = supervision_of(labels, RandomizedResponse(math.inf), "plain")
    network = functools.partial(CNN, widths=[4, 4], hidden=8, dropout=0.0)
    classifiers = {
        precision: fit(NetworkModel(network, trainer(precision=precision)), images, supervision)
        for precision in ("float32", "bf16")
    }
    scores = {name: pair[0].scores(images) for name, pair in classifiers.items()}
    assert all(value.dtype == torch.float32 for value in scores.values())
    gap = (scores["float32"] - scores["bf16"]).abs().max()
    assert 0 < gap < 0.5
    assert classifiers["bf16"][0].describe() == "cpu, bf16"


def test_auto_precision_follows_the_hardware(monkeypatch):
    # Emulated bf16 would make every run on an older CPU several times slower.
    assert resolve_precision("float32", CPU) == "float32"
    assert resolve_precision("bf16", CPU) == "bf16"
    for native, expected in ((True, "bf16"), (False, "float32")):
        for test in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
            monkeypatch.setattr(torch.cpu, test, lambda native=native: native)
        assert resolve_precision("auto", CPU) == expected


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_statistics_equal_numpy(channels):
    # Pixels would not be standardised.
    generator = np.random.default_rng(0)
    images = generator.integers(0, 200, (50, 6, 7, channels), dtype=np.uint8)
    mean, stddev = channel_statistics(torch.from_numpy(images))
    assert np.allclose(mean, images.mean((0, 1, 2), dtype=np.float64), rtol=1e-5)
    assert np.allclose(stddev, images.std((0, 1, 2), dtype=np.float64), rtol=1e-5)


def test_constant_images_do_not_divide_by_zero():
    # One black channel would turn every weight into NaN.
    _, stddev = channel_statistics(torch.zeros(2, 4, 4, 1, dtype=torch.uint8))
    assert stddev.tolist() == [1.0]


def test_float_features_train_like_the_pixels_they_are():
    # Whoever has images as floats would be shown NotImplementedError.
    images, labels = images_and_labels(60)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    network = functools.partial(CNN, widths=[4, 4], hidden=8)
    losses = [
        [epoch.loss for epoch in fit(NetworkModel(network, trainer()), features, supervision)[1]]
        for features in (images, images.double() / 255, images.float() * 1e4)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert losses[2] == pytest.approx(losses[0], rel=1e-3)
    with pytest.raises(InputError, match="finite numbers, got NaN or infinity"):
        fit(NetworkModel(network, trainer()), images / 0, supervision)
    with pytest.raises(
        InputError, match=r"trainer\.pixels=unit is for images uint8, got .*float32"
    ):
        fit(NetworkModel(network, trainer(pixels="unit")), images.float(), supervision)


@pytest.mark.parametrize(("epochs", "few"), [(66, True), (67, False)])
def test_too_few_steps_are_said_before_training(epochs, few, monkeypatch):
    # A thousand images would give 47 % without a word on why, where their neighbours give 98.
    monkeypatch.setattr(Trainer, "run", lambda *_: None)
    images, labels = images_and_labels(60)
    model = NetworkModel(functools.partial(CNN, widths=[4, 4], hidden=8), trainer(epochs=epochs))
    said: list[str] = []
    session = Session(SEED, CPU, say=said.append)
    model.fit(images, supervision_of(labels, RandomizedResponse(1.0), "plain"), session)
    # Advice to take model=linear stood there for model=linear too.
    expected = "  only 198 steps on 60 examples: the model may learn little (give trainer."
    assert [line[: len(expected)] for line in said] == [expected] * few


def test_a_last_image_that_cannot_be_normalised_is_refused_before_training(monkeypatch):
    # Torch's ValueError would come at the end of the first epoch, after all other steps.
    resnet = functools.partial(ResNet, width=4, blocks=[1, 1, 1, 1], preactivation=False)
    images, labels = images_and_labels(26)  # of 8 x 8 pixels, in batches of 25
    steps, step = [], NetworkFit.step
    monkeypatch.setattr(NetworkFit, "step", lambda *given: steps.append(1) or step(*given))
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    with pytest.raises(InputError, match="batch_size=25 leaves one of 26 examples for the last"):
        fit(NetworkModel(resnet, trainer()), images, supervision)
    assert not steps
    fit(NetworkModel(resnet, trainer(epochs=1, views=2)), images, supervision)
    large = images.repeat(1, 2, 2, 1)
    fit(NetworkModel(resnet, trainer(epochs=1)), large, supervision)
    with pytest.raises(InputError, match="ResNet cannot normalise one image that small"):
        fit(NetworkModel(resnet, trainer(epochs=2, resolution=[[0.5, 0.5]])), large, supervision)


def test_whether_one_image_is_enough_is_asked_without_a_trace():
    # Dropout, and so all weights, would be others wherever the last batch has one example.
    network = CNN(3, (8, 8, 1), kernel_size=3, widths=[4, 4], hidden=8, dropout=0.5)
    before, names = torch.get_rng_state(), str(network.state_dict())
    trainer()._check_one(network, torch.zeros(26, 8, 8, 1, dtype=torch.uint8), 26)
    assert torch.equal(torch.get_rng_state(), before) and str(network.state_dict()) == names


def test_a_loss_that_is_not_finite_ends_the_run():
    # Hours of training would go on with NaN weights, and end in a record.
    images, labels = images_and_labels(60)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    optimizer = functools.partial(torch.optim.SGD, lr=1e30)
    model = NetworkModel(functools.partial(CNN, widths=[4, 4], hidden=8),
                         trainer(epochs=3, optimizer=optimizer))  # fmt: skip
    with pytest.raises(InputError, match=r"the loss became .* \(lower trainer\.optimizer\.lr"):
        fit(model, images, supervision)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"),
     RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")],
)  # fmt: skip
def test_lack_of_memory_is_one_line_that_says_what_to_do(
    error, tiny_network, tiny_images, tmp_path, monkeypatch, capsys
):
    # A page of an allocator's statistics would end the run.
    def full(*_):
        raise error

    monkeypatch.setattr(NetworkFit, "step", full)
    environment = Environment(tmp_path / "runs", tiny_images, CPU)
    cell = compose_cell(tiny_network)
    assert run_cells([cell], environment) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "out of memory (free the device" in line
    assert type(error).__name__ in (environment.out_dir / cell.folder / "error.txt").read_text()
