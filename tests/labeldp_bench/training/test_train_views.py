"""Views of an example, refined targets, and the best epoch by validation."""

import dataclasses
import functools

import pytest
import torch
from torch.nn import functional

from labeldp.mechanisms import RandomizedResponse
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Session
from labeldp_bench.models import CNN
from labeldp_bench.models.networks import NetworkModel
from tests.training import CPU, SEED, fit, images_and_labels, supervision_of, trainer

LINEAR = functools.partial(CNN, kernel_size=3, widths=[4, 4], hidden=8, dropout=0.0)
SGD = functools.partial(torch.optim.SGD, lr=0.01)


def test_the_loss_of_an_example_is_the_sum_over_its_views():
    # Without augmentation and dropout, three equal views are one with three times the rate.
    images, labels = images_and_labels(60)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    thrice, epochs = fit(NetworkModel(LINEAR, trainer(optimizer=SGD, views=3)), images, supervision)
    faster = functools.partial(torch.optim.SGD, lr=0.03)
    once, single = fit(NetworkModel(LINEAR, trainer(optimizer=faster)), images, supervision)
    assert torch.allclose(thrice.scores(images), once.scores(images), atol=1e-4)
    assert epochs[0].loss == pytest.approx(3 * single[0].loss, rel=1e-4)
    assert epochs[0].released_hits == pytest.approx(single[0].released_hits)


def test_views_are_augmented_each_on_its_own():
    # All views of an example would be the same picture.
    batches = []

    def remember(images, draws):
        batches.append(images)
        return images + torch.rand(len(images), generator=draws)[:, None, None, None]

    images, labels = images_and_labels(10)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    recipe = trainer(epochs=1, batch_size=10, views=2, augment=[remember])
    fit(NetworkModel(LINEAR, recipe), images, supervision)
    (batch,) = batches
    assert torch.equal(batch[:10], batch[10:]) and len(batch) == 20


def test_refined_targets_are_those_of_the_next_epoch():
    # The server would learn from its first targets for ever, or rows would be mixed up.
    images, labels = images_and_labels(50)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    calls = []

    def refine(number, log_probabilities):
        calls.append((number, log_probabilities))
        return labels if number == 1 else supervision.targets

    still = functools.partial(torch.optim.SGD, lr=0.0)  # so that each epoch's loss can be computed
    model = NetworkModel(LINEAR, trainer(epochs=3, optimizer=still, views=2))
    classifier, epochs = fit(model, images, dataclasses.replace(supervision, refine=refine))
    exact = classifier.scores(images).log_softmax(1)
    for _, log_probabilities in calls:
        assert torch.allclose(log_probabilities, exact, atol=1e-5)
    expected = [supervision.targets, labels, supervision.targets]
    losses = [float(2 * functional.nll_loss(exact, targets)) for targets in expected]
    assert [epoch.loss for epoch in epochs] == pytest.approx(losses, rel=1e-4)
    assert [number for number, _ in calls] == [1, 2, 3]


def test_the_best_epoch_is_put_back_and_patience_ends_training():
    # The weights of the last epoch would be reported as those of the best one.
    images, labels = images_and_labels(50)
    scores = iter([0.1, 0.5, 0.5, 0.2, 0.9])
    kept = []

    def validate(classifier):
        kept.append(classifier.scores(images))
        return next(scores)

    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    supervision = dataclasses.replace(supervision, validate=validate)
    notes: dict = {}
    session = Session(SEED, CPU, notes=notes)
    recipe = trainer(epochs=9, selection="best_validation", patience=2)
    classifier = NetworkModel(LINEAR, recipe).fit(images, supervision, session)
    assert torch.equal(classifier.scores(images), kept[1]) and len(kept) == 4
    assert not torch.equal(kept[1], kept[3])
    assert notes == {"best_epoch": 2, "validation_accuracy": 0.5, "epochs_run": 4}


def test_best_validation_needs_validation_labels():
    # A private run would end after its first epoch with a traceback, or choose by nothing.
    images, labels = images_and_labels(20)
    supervision = supervision_of(labels, RandomizedResponse(1.0), "plain")
    model = NetworkModel(LINEAR, trainer(selection="best_validation"))
    with pytest.raises(InputError, match=r"this learner has none \(use trainer.selection=last\)"):
        fit(model, images, supervision)
    with pytest.raises(InputError, match=r"trainer\.patience must be >= 1, got 0"):
        trainer(patience=0)
