"""The training loop against a textbook one; views, refined targets, the best epoch."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.optim import SGD, Adam

from labeldp.mechanisms import NoPrivacy, Rappor
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models.convolutional import CNN
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.models.resnets import ResNet
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.training import fit as fits
from labeldp_bench.training.fit import resolve_precision, step_seconds
from labeldp_bench.training.images import channel_statistics
from labeldp_bench.training.network_fit import NetworkFit
from labeldp_bench.training.trainer import Trainer
from tests.training import (
    CPU,
    EXACT,
    RR,
    SEED,
    SMALL,
    fit,
    images_and_labels,
    supervision_of,
    train,
    trainer,
)


@pytest.mark.parametrize(("mechanism", "loss"), [(RR, "plain"), (Rappor(1.0), "bce")])
def test_ten_steps_equal_a_textbook_loop(mechanism, loss):
    # The functional step would be another algorithm; the last batch, of one image, would be lost,
    # counted like a full one, or the question whether one is enough leave a trace; hits would not
    # be those of the released labels.
    images, labels = images_and_labels(101)
    supervision = supervision_of(labels, mechanism, loss)
    network = partial(CNN, kernel_size=3, widths=[8, 8], hidden=16, dropout=0.5)
    classifier, epochs = fit(NetworkModel(network, trainer()), images, supervision)

    torch.manual_seed(seeding.derive(SEED, "train"))
    textbook = network(num_classes=3, image_shape=(8, 8, 1))
    adam = torch.optim.Adam(textbook.parameters(), lr=0.001)
    order = seeding.generator(SEED, "train", "order")
    pixels = images.double()
    inputs = ((pixels - pixels.mean()) / pixels.std(correction=0)).float().permute(0, 3, 1, 2)
    textbook.train()
    for epoch in epochs:
        total = hits = 0.0
        for rows in torch.randperm(101, generator=order).split(25):
            logits = textbook(inputs[rows])
            targets = supervision.targets[rows]
            if loss == "plain":
                each = functional.cross_entropy(logits, targets, reduction="none")
            else:
                entropy = functional.binary_cross_entropy_with_logits
                each = entropy(logits, targets, reduction="none").sum(1)
            adam.zero_grad()
            each.mean().backward()
            adam.step()
            total += float(each.sum().detach())
            outputs = targets if loss == "plain" else targets.to(torch.uint8)
            likelihood = mechanism.log_likelihood(outputs, 3)
            best = likelihood == likelihood.amax(1, keepdim=True)
            hits += sum(bool(best[i, c]) for i, c in enumerate(logits.argmax(1).tolist()))
        assert epoch.loss == pytest.approx(total / 101, abs=1e-5)
        assert epoch.released_hits == pytest.approx(hits / 101)
        assert epoch.lr == 0.001
        assert (epoch.total, epoch.num_examples) == (2, 101)
    assert [epoch.number for epoch in epochs] == [1, 2]
    trained = classifier.network.state_dict()
    for name, value in textbook.state_dict().items():
        assert torch.allclose(trained[name], value, atol=1e-5), name


def test_global_random_state_is_left_alone():
    # A run would depend on what ran before it in the same sweep.
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, _ = train(epochs=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second, _ = train(epochs=1)
    images, _ = images_and_labels(60)
    assert torch.equal(first.scores(images), second.scores(images))


def test_reports_hold_no_labels():
    # A learner or a log could read true labels from what is reported after an epoch.
    reports = []
    train(epochs=1, session={"on_epoch": lambda *given: reports.append(given)})
    [(epoch, classifier)] = reports
    assert all(type(value) in (bool, int, float) for value in vars(epoch).values())
    held = [*vars(classifier).values(), *classifier.network.state_dict().values()]
    tensors = [value for value in held if isinstance(value, torch.Tensor)]
    assert all(tensor.dtype != torch.int64 or tensor.numel() < 2 for tensor in tensors)
    assert all(60 not in tensor.shape for tensor in tensors)


def test_bf16_is_used_where_asked_for_and_learns_three_brightnesses():
    # A record would say bf16 while the network computed in float32, or the reverse.
    images, labels = images_and_labels(200)
    scores = {}
    for precision in ("float32", "bf16"):
        recipe = dict(precision=precision, epochs=8, optimizer=partial(Adam, lr=0.01))
        classifier, epochs = train(200, EXACT, NoPrivacy(), **recipe)
        scores[precision] = classifier.scores(images)
        assert classifier.precision == precision
        assert scores[precision].dtype == torch.float32
        assert (scores[precision].argmax(1) == labels).double().mean() > 0.9
        assert epochs[-1].loss < epochs[0].loss
        shares = classifier.probabilities(images)
        assert torch.allclose(shares.sum(1), torch.ones(200, dtype=torch.float64))
    assert not torch.equal(*scores.values())


@pytest.mark.parametrize(
    ("native", "ratio", "expected"),
    [(False, 0.1, "float32"), (True, 0.5, "bf16"), (True, 1.2, "float32")],
)
def test_auto_precision_is_the_faster_one(native, ratio, expected, monkeypatch):
    # Emulated bf16 is several times slower; on some CPUs that have it, it is slower too.
    for test in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, test, lambda: native)
    monkeypatch.setattr(fits, "step_seconds", {torch.bfloat16: ratio, torch.float32: 1.0}.get)
    fits._bf16_is_faster.cache_clear()
    found = [resolve_precision(each, CPU) for each in ("auto", "float32", "bf16")]
    fits._bf16_is_faster.cache_clear()
    assert found == [expected, "float32", "bf16"]


def test_measuring_the_precision_draws_no_random_number():
    before = torch.get_rng_state()
    assert step_seconds(torch.bfloat16) > 0
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_statistics_equal_numpy(channels):
    # Pixels would not be standardised; one black channel would turn every weight into NaN.
    images = np.random.default_rng(0).integers(0, 200, (50, 6, 7, channels), dtype=np.uint8)
    mean, stddev = channel_statistics(torch.from_numpy(images))
    assert np.allclose(mean, images.mean((0, 1, 2), dtype=np.float64), rtol=1e-5)
    assert np.allclose(stddev, images.std((0, 1, 2), dtype=np.float64), rtol=1e-5)
    assert channel_statistics(torch.from_numpy(images * 0))[1].tolist() == [1.0] * channels


def test_float_features_train_like_the_pixels_they_are():
    # Whoever has images as floats would be shown NotImplementedError.
    images, labels = images_and_labels(60)
    model, supervision = NetworkModel(SMALL, trainer()), supervision_of(labels)
    pixels, shares, large = (
        [epoch.loss for epoch in fit(model, features, supervision)[1]]
        for features in (images, images.double() / 255, images.float() * 1e4)
    )
    assert shares == pytest.approx(pixels, rel=1e-3) and large == pytest.approx(pixels, rel=1e-3)
    with pytest.raises(InputError, match="NaN or infinity"):
        fit(model, images / 0, supervision)
    with pytest.raises(InputError, match=r"trainer\.pixels=unit .* got .*float32"):
        fit(NetworkModel(SMALL, trainer(pixels="unit")), images.float(), supervision)


@pytest.mark.parametrize(("epochs", "few"), [(66, True), (67, False)])
def test_too_few_steps_are_said_before_training(epochs, few, monkeypatch):
    # A thousand images would give 47 % without a word on why, where their neighbours give 98.
    monkeypatch.setattr(Trainer, "run", lambda *_: None)
    said: list[str] = []
    train(epochs=epochs, session={"say": said.append})
    assert len(said) == few and all("198 steps on 60 examples" in line for line in said)


def test_a_last_image_that_cannot_be_normalised_is_refused_before_training(monkeypatch):
    # Torch's ValueError would come at the end of the first epoch, after all other steps.
    resnet = partial(ResNet, width=4, blocks=[1, 1, 1, 1], preactivation=False)
    steps, step = [], NetworkFit.step
    monkeypatch.setattr(NetworkFit, "step", lambda *given: steps.append(1) or step(*given))
    with pytest.raises(InputError, match=r"batch_size=25 .*26"):
        train(26, resnet)  # of 8 x 8 pixels
    assert not steps
    train(26, resnet, epochs=1, views=2)
    images, labels = images_and_labels(26)
    large, supervision = images.repeat(1, 2, 2, 1), supervision_of(labels)
    fit(NetworkModel(resnet, trainer(epochs=1)), large, supervision)
    with pytest.raises(InputError, match="ResNet "):
        fit(NetworkModel(resnet, trainer(resolution=[[0.5, 0.5]])), large, supervision)


def test_a_loss_that_is_not_finite_ends_the_run():
    # Hours of training would go on with NaN weights, and end in a record.
    with pytest.raises(InputError, match=r"the loss became .* trainer\.optimizer\.lr"):
        train(epochs=3, optimizer=partial(SGD, lr=1e30))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
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
    assert "out of memory" in line
    assert type(error).__name__ in (environment.out_dir / cell.folder / "error.txt").read_text()


def test_the_loss_of_an_example_is_the_sum_over_its_views():
    # Without augmentation and dropout, three equal views are one with three times the rate.
    thrice, epochs = train(network=EXACT, optimizer=partial(SGD, lr=0.01), views=3)
    once, single = train(network=EXACT, optimizer=partial(SGD, lr=0.03))
    images, _ = images_and_labels(60)
    assert torch.allclose(thrice.scores(images), once.scores(images), atol=1e-4)
    assert epochs[0].loss == pytest.approx(3 * single[0].loss, rel=1e-4)
    assert epochs[0].released_hits == pytest.approx(single[0].released_hits)


def test_views_are_augmented_each_on_its_own():
    # All views of an example would be the same picture.
    batches = []

    def remember(images, draws):
        batches.append(images)
        return images + torch.rand(len(images), generator=draws)[:, None, None, None]

    train(10, EXACT, epochs=1, batch_size=10, views=2, augment=[remember])
    (batch,) = batches
    assert torch.equal(batch[:10], batch[10:]) and len(batch) == 20


def test_refined_targets_are_those_of_the_next_epoch():
    # The server would learn from its first targets for ever, or rows would be mixed up.
    images, labels = images_and_labels(50)
    first = supervision_of(labels).targets
    calls = []

    def refine(number, log_probabilities):
        calls.append((number, log_probabilities))
        return labels if number == 1 else first

    still = partial(SGD, lr=0.0)  # so that each epoch's loss can be computed
    recipe = dict(epochs=3, optimizer=still, views=2)
    classifier, epochs = train(50, EXACT, targets={"refine": refine}, **recipe)
    exact = classifier.scores(images).log_softmax(1)
    for _, log_probabilities in calls:
        assert torch.allclose(log_probabilities, exact, atol=1e-5)
    losses = [float(2 * functional.nll_loss(exact, each)) for each in (first, labels, first)]
    assert [epoch.loss for epoch in epochs] == pytest.approx(losses, rel=1e-4)
    assert [number for number, _ in calls] == [1, 2, 3]


def test_the_best_epoch_is_put_back_and_patience_ends_training():
    # The weights of the last epoch would be reported as those of the best one.
    images, _ = images_and_labels(50)
    scores, kept, notes = iter([0.1, 0.5, 0.5, 0.2, 0.9]), [], {}

    def validate(classifier):
        kept.append(classifier.scores(images))
        return next(scores)

    recipe = dict(epochs=9, selection="best_validation", patience=2)
    given = dict(targets={"validate": validate}, session={"notes": notes})
    classifier, _ = train(50, EXACT, **given, **recipe)
    assert torch.equal(classifier.scores(images), kept[1]) and len(kept) == 4
    assert not torch.equal(kept[1], kept[3])
    assert notes == {"best_epoch": 2, "validation_accuracy": 0.5, "epochs_run": 4}


def test_best_validation_needs_validation_labels():
    # A private run would end after its first epoch with a traceback, or choose by nothing.
    with pytest.raises(InputError, match=r"use trainer\.selection=last"):
        train(20, selection="best_validation")
    with pytest.raises(InputError, match=r"trainer\.patience must be >= 1, got 0"):
        trainer(patience=0)
