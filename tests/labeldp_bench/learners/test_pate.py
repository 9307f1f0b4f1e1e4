"""PATE and FixMatch: who sees which label, what a step learns from, what is refused."""

import functools
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from labeldp.mechanisms import PateFM, Rappor
from labeldp.store import BudgetError, LabelStore
from labeldp.supervision import predict
from labeldp.support.validate import InputError
from labeldp_bench.learners.teachers import FixMatch, LinearTeachers, Pate, fitted
from labeldp_bench.models.convolutional import LinearClassifier
from labeldp_bench.models.neighbours import NearestNeighbours
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training.augment import Mixup, PadCrop
from labeldp_bench.training.fixmatch import Consistency
from tests import training
from tests.learning import session

STUDENT = Consistency(strong=[PadCrop(padding=1)], threshold=0.5)
BRISK = functools.partial(torch.optim.Adam, lr=0.01)


def network(**changes):
    return NetworkModel(LinearClassifier, trainer=training.trainer(**changes))


def learner(teachers=None, student=STUDENT):
    return Pate(teachers=teachers or LinearTeachers(), student=student)


def test_each_teacher_sees_its_own_labels_and_one_replaced_label_moves_one_vote():
    labels = torch.arange(60) % 3
    parts, mechanism = torch.arange(60) % 12, PateFM(1.0, teachers=12, queries=5, answers=5)
    seen = []

    def vote(indices, own):
        seen.append(indices)
        assert torch.equal(own, labels[indices])
        return own[:5]

    store = LabelStore(labels, 3).open(1.0, seed=0)
    released = store.release(replace(mechanism, parts=parts, vote=vote))
    assert released.shape == (5,) and len(seen) == 12
    assert sorted(torch.cat(seen).tolist()) == list(range(60))
    (line,) = store.ledger
    assert (line.mechanism, line.trust, line.delta) == ("PateFM", "central", 1e-5)
    assert line.eps == pytest.approx(0.915, abs=1e-3)  # what the noise for eps=1 costs
    assert set(store.unsanitised) == {"data_dependent_eps_unsanitised"}
    with pytest.raises(BudgetError):
        store.release(replace(mechanism, parts=parts, vote=vote))
    again = LabelStore(labels, 3).open(1.0, seed=0)  # of a run that was cut off, and goes on
    again.load_state_dict(store.state_dict())
    assert torch.equal(again.release(replace(mechanism, parts=parts, vote=vote)), released)
    assert len(seen) == 12 and again.unsanitised == store.unsanitised


def test_the_student_learns_from_winners_alone():
    images, labels = training.images_and_labels(300)
    mechanism = PateFM(math.inf, teachers=6, queries=60, answers=40)
    store = LabelStore(labels, 3).open(math.inf, seed=0)
    where = session()
    model = network(epochs=20, optimizer=BRISK)
    student = learner().fit(images, store, mechanism, model, where)
    agrees = (predict(student.scores(images), 0) == labels).double().mean()
    assert float(agrees) > 0.8
    assert 10 < where.notes["answers"] <= 40
    # A run that goes on gets the same winners without any label.
    again = LabelStore(torch.zeros_like(labels), 3).open(math.inf, seed=0)
    again.load_state_dict(store.state_dict())
    repeated = learner().fit(images, again, mechanism, model, session())
    assert torch.equal(repeated.scores(images), student.scores(images))


def test_without_weight_fixmatch_is_the_plain_fit_and_with_it_is_not():
    images, labels = training.images_and_labels(200)
    supervision = training.supervision_of(labels, Rappor(eps=4.0), "marginal")
    plain = network().fit(images, supervision, session()).scores(images)

    def scores(weight, threshold=0.5):
        where = session()
        student = Consistency([PadCrop(padding=1)], threshold, weight)
        found = fitted(network(), images, supervision, where, student).scores(images)
        return found, where.notes["taught_share"]

    off, _ = scores(0.0)
    assert torch.allclose(off, plain, atol=1e-5)
    on, share = scores(1.0)
    assert not torch.allclose(on, plain, atol=1e-2) and 0 < share <= 1
    assert scores(1.0, threshold=0.0)[1] == 1
    never, share = scores(1.0, threshold=1.0)
    assert share == 0 and torch.allclose(never, plain, atol=1e-5)


def test_releases_take_part_in_what_is_taught():
    # At eps=inf the posterior is the label itself, however wrong the network still is.
    images, labels = training.images_and_labels(200)
    supervision = training.supervision_of(labels, Rappor(eps=60.0), "marginal")
    where = session()
    fitted(network(epochs=1), images, supervision, where, Consistency([PadCrop(padding=1)], 0.99))
    assert where.notes["taught_share"] > 0.99


def test_distorted_images_are_taught_from_the_first_taught_epoch_on():
    # Taught too early, a network is sure of one class; of the images as they are it learns nothing.
    images, labels = training.images_and_labels(100)
    supervision = training.supervision_of(labels, Rappor(eps=4.0), "marginal")
    distorted = []

    def black(batch, draws):
        distorted.append(len(batch))
        return torch.zeros_like(batch)

    def scores(strong, begin=0.0):
        distorted.clear()
        student = Consistency(strong, threshold=0.0, begin=begin)
        model = network(epochs=4, optimizer=BRISK)
        return fitted(model, images, supervision, session(), student).scores(images)

    taught, plain = scores([black]), scores([])
    assert sum(distorted) == 0 and not torch.allclose(taught, plain, atol=1e-2)
    scores([black], begin=0.75)
    assert sum(distorted) == 100  # the last epoch's


PATE, FIXMATCH = Pate(LinearTeachers(), STUDENT), FixMatch("marginal", STUDENT)
VOTES, KNN = PateFM(1.0, teachers=5, queries=5, answers=5), NearestNeighbours(5)
BITS = Rappor(eps=1)
IMAGES, LABELS = training.images_and_labels(50)


@pytest.mark.parametrize(
    ("learner", "images", "mechanism", "model", "named"),
    [
        (PATE, IMAGES, BITS, network(), "learner=fixmatch"),
        (PATE, IMAGES, VOTES, KNN, "NearestNeighbours"),
        (FIXMATCH, IMAGES, BITS, KNN, "NearestNeighbours"),
        (PATE, IMAGES.flatten(1), VOTES, network(), r"\(50, 64\)"),
        (PATE, IMAGES, PateFM(1.0, teachers=99), network(), r"mechanism\.teachers=99 .* 50"),
        (FIXMATCH, IMAGES, BITS, network(mixup=Mixup(alpha=1.0)), r"trainer\.mixup"),
        (PATE, IMAGES, VOTES, network(mixup=Mixup(alpha=1.0)), r"trainer\.mixup"),
    ],
)
def test_what_makes_no_sense_is_one_clear_line(learner, images, mechanism, model, named):
    # Before any teacher learns.
    store = LabelStore(LABELS, 3).open(1.0, seed=0)
    with pytest.raises(InputError, match=named):
        learner.check(mechanism, model)
        learner.fit(images, store, mechanism, model, session())
    assert store.eps_spent == 0


def test_other_teachers_have_other_noise():
    # Two runs of one seed had the same noise: where they differed, a label differed for certain.
    mechanism = PateFM(1.0, teachers=20, queries=200, answers=100)
    labels, parts = torch.zeros(20, dtype=torch.int64), torch.arange(20)

    def vote(indices, own):
        return torch.zeros(200, dtype=torch.int64)

    closed = LabelStore(labels, 3)
    one, same, other = (
        closed.open(1.0, 0, again="test").release(
            replace(mechanism, parts=parts, vote=vote, settings=settings)
        )
        for settings in ("a", "a", "b")
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_settings_of_votes_name_all_that_they_depend_on():
    images, labels = training.images_and_labels(60)
    mechanism = PateFM(20.0, teachers=3, queries=10, answers=10)

    def settings(teachers, pixels=images, seed=0, model=None):
        store = LabelStore(labels, 3).open(20.0, seed=0)
        where = session(seed=seed)
        learner(teachers).fit(pixels, store, mechanism, model or network(epochs=1), where)
        return next(iter(store.state_dict()))

    kinds = {settings(LinearTeachers()), settings(LinearTeachers(2.0))}
    kinds |= {settings(LinearTeachers(), 255 - images), settings(LinearTeachers(), seed=1)}
    assert len(kinds) == 4
    # The student is another use of the same winners.
    assert settings(LinearTeachers()) == settings(LinearTeachers(), model=network(epochs=2))


def test_linear_teachers_take_what_a_pre_trained_network_makes_of_images():
    images, _ = training.images_and_labels(40)
    where = session()
    pixels = network().representation(images, where)
    assert pixels.shape == (40, 64)

    class Deep(nn.Module):
        def __init__(self, num_classes, image_shape):
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
            self.head = nn.Linear(5, num_classes)

        def forward(self, images):
            return self.head(self.body(images))

    below = {"body.1.weight": torch.randn(5, 64), "body.1.bias": torch.zeros(5)}
    deep = NetworkModel(Deep, trainer=training.trainer(), initial=below)
    rows = deep.representation(images, where)
    assert rows.shape == (40, 5)
    assert torch.allclose(rows.norm(dim=1), torch.ones(40), atol=1e-5)
