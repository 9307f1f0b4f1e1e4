"""The recorded step is the ordinary one; what stands for a CUDA graph here does its work again."""

import functools

import pytest
import torch

from labeldp.losses import loss_named
from labeldp.supervision import Supervision
from labeldp_bench.interfaces import Session
from labeldp_bench.models import CNN, ResNet
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training import network_fit
from labeldp_bench.training import network_fit as captured
from labeldp_bench.training.augment import Flip, Mixup
from labeldp_bench.training.schedules import WarmupLinear
from labeldp_bench.training.trainer import Trainer

CPU = torch.device("cpu")
EPOCHS, WHOLE = 3, 4
OPTIMIZERS = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": functools.partial(torch.optim.Adam, lr=0.01),
}


SMALL_CNN = functools.partial(CNN, widths=[4, 4], hidden=8)


def fit(optimizer, captures=True, say=lambda _: None, network=SMALL_CNN, notes=None, **changes):
    """Returns weights, losses and agreements after epochs of whole batches and a shorter one."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (25 * WHOLE + 10, 8, 8, 1), dtype=torch.uint8, generator=generator)
    labels = torch.randint(3, (len(images),), generator=generator)
    one_hot = torch.nn.functional.one_hot(labels, 3).bool()
    supervision = Supervision(torch.arange(len(images)), labels, one_hot, loss_named("plain"))
    mixing = {"augment": [Flip()], "mixup": Mixup(1.0), "schedule": WarmupLinear(0.3)}
    trainer = Trainer(EPOCHS, 25, OPTIMIZERS[optimizer], "last", "float32", **mixing, **changes)
    told = []
    session = Session(
        0, CPU, lambda epoch, _: told.append((epoch.loss, epoch.released_hits, epoch.lr)), say,
        captures=captures, notes={} if notes is None else notes,
    )  # fmt: skip
    classifier = NetworkModel(network, trainer).fit(images, supervision, session)
    return classifier.network.state_dict(), told


@pytest.fixture
def recorded(monkeypatch):
    """Records on the CPU: a graph is its work, done again at each replay; what was recorded."""
    seen = []

    def record(work):
        seen.append(0)

        def replay():
            seen[-1] += 1
            work()

        return replay

    monkeypatch.setattr(network_fit, "KINDS", ("cpu",))
    monkeypatch.setattr(captured, "record", record)
    return seen


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("views", [1, 2])
def test_a_recorded_step_learns_what_an_ordinary_one_does(optimizer, views, recorded):
    # The card would learn the batch of the recording for ever, or at the rate it had then.
    notes, notes_there = {}, {}
    ordinary, told = fit(optimizer, captures=False, views=views, notes=notes)
    assert recorded == [] and "captured" not in notes
    weights, told_there = fit(optimizer, views=views, notes=notes_there)
    assert notes_there["captured"] is True
    assert recorded == [EPOCHS * WHOLE - captured.WARM_UP]
    for name, values in ordinary.items():
        assert torch.allclose(weights[name], values, atol=1e-5), name
    for epoch, there in zip(told, told_there, strict=True):
        assert there == pytest.approx(epoch, abs=1e-5)
        assert isinstance(there[2], float)


def test_images_of_another_size_are_recorded_anew(recorded):
    # The card would learn the small images of the first recording for ever, or stop.
    growing = {"resolution": [[0.34, 0.5]], "network": functools.partial(ResNet, width=4)}
    ordinary, _ = fit("sgd", captures=False, **growing)
    weights, _ = fit("sgd", **growing)
    assert recorded == [WHOLE - captured.WARM_UP, (EPOCHS - 1) * WHOLE - captured.WARM_UP]
    assert all(torch.allclose(weights[key], ordinary[key], atol=1e-5) for key in ordinary)


def test_a_step_that_cannot_be_recorded_is_said_once_and_goes_on(recorded, monkeypatch):
    # A card would stop, or train nothing, over a gain of some percent.
    def fails(work):
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    ordinary, _ = fit("adam", captures=False)
    monkeypatch.setattr(captured, "record", fails)
    said: list[str] = []
    notes = {}
    weights, _ = fit("adam", say=said.append, notes=notes)
    assert "captured" not in notes
    lines = [line for line in said if "recording the step failed" in line]
    assert lines == [
        "  recording the step failed (operation not permitted when stream is capturing), "
        "so training goes on without"
    ]
    assert all(torch.equal(weights[name], values) for name, values in ordinary.items())


def test_nothing_is_recorded_unasked_or_on_a_cpu(monkeypatch):
    monkeypatch.setattr(captured, "record", lambda work: pytest.fail("recorded"))
    fit("sgd")
