"""Descent of a network by a curator's answers: through the store, and what is refused."""

import pytest
import torch

from labeldp.mechanisms import LabelDPPro, Rappor
from labeldp.store import LabelStore
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.learners import NoisySGD, SingleStage
from labeldp_bench.learners.noisy_descent import _Descent
from labeldp_bench.models import CNN, GradientNetwork
from labeldp_bench.models.neighbours import NearestNeighbours
from tests.learning import session

COUNT = 600


def tiny(num_classes, image_shape):
    return CNN(num_classes, image_shape, widths=[4, 4], hidden=8, dropout=0.0)


MODEL = GradientNetwork(tiny)
EASY = LabelDPPro(eps=20.0, steps=40, share=0.2)


def images():
    """Returns images whose bright half tells their label."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (COUNT,), generator=stream)
    pixels = torch.randint(100, (COUNT, 8, 8, 1), generator=stream)
    pixels[labels == 0, :4] += 120
    pixels[labels == 1, 4:] += 120
    return pixels.to(torch.uint8), labels


def learnt(learner, store, mechanism=EASY):
    return learner.fit(images()[0], store, mechanism, MODEL, session())


@pytest.mark.parametrize("projection", ["hull", "none"])
def test_it_learns_from_one_entry_of_the_ledger(projection):
    features, labels = images()
    store = LabelStore(labels, 2).open(20.0, seed=0)
    learner = NoisySGD(projection=projection, public_batch=50, iterations=5)
    scores = learnt(learner, store).scores(features)
    assert (scores.argmax(1) == labels).float().mean() > 0.95
    assert [(line.mechanism, line.trust, line.eps, line.delta) for line in store.ledger] == [
        ("LabelDPPro", "central", 20.0, 1e-5)
    ]
    # A run that goes on gets the same weights, without a label.
    again = LabelStore(torch.zeros_like(labels), 2).open(20.0, seed=0)
    again.load_state_dict(store.state_dict())
    assert torch.equal(learnt(learner, again).scores(features), scores)


def test_another_recipe_gets_noise_of_its_own():
    # The same noise on gradients of other weights would show labels by a difference.
    _, labels = images()
    asked = {}
    for rate in (0.1, 0.2):
        seen = asked.setdefault(rate, [])

        class Listening(LabelDPPro):
            def release_descent(self, labels, descent, generator, seen=seen):
                seen.append(torch.rand(3, generator=generator))
                return super().release_descent(labels, descent, generator)

        listening = Listening(eps=20.0, steps=1, share=0.2)
        store = LabelStore(labels, 2).open(20.0, seed=0)
        learnt(NoisySGD(learning_rate=rate, public_batch=5), store, listening)
    assert not torch.equal(asked[0.1][0], asked[0.2][0])


def test_the_last_weights_are_averaged():
    gradients = MODEL.gradients(images()[0], 2, session(), clip=1.0)
    recipe = NoisySGD(projection="none", learning_rate=1.0, momentum=0.0, averaged=0.5)
    descent = _Descent(gradients, recipe, 4, session())
    first = descent.weights
    for _ in range(4):
        descent.step(torch.full_like(first, -1.0, dtype=torch.float64))
    assert torch.allclose(descent.weights, first + 3.5)  # of 3 and 4


def test_weights_that_left_every_bound_are_told():
    store = LabelStore(images()[1], 2).open(20.0, seed=0)
    with pytest.raises(Diverged, match="take a smaller learning_rate"):
        learnt(NoisySGD(projection="none", learning_rate=1e38), store)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"loss": "marginal"}, "learner.loss must be plain, got 'marginal'"),
        ({"projection": "span"}, "learner.projection must be one of hull, none; got 'span'"),
        ({"clip": 0}, "learner.clip must be a number > 0, got 0"),
        ({"momentum": 1.0}, "learner.momentum must be a number >= 0 and < 1, got 1.0"),
    ],
)
def test_what_makes_no_recipe_is_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        NoisySGD(**wrong)


def test_it_refuses_single_labels_and_other_models():
    with pytest.raises(InputError, match="needs mechanism=labeldp_pro"):
        NoisySGD().check(Rappor(eps=1.0), MODEL)
    with pytest.raises(InputError, match="needs model=tiny_cnn"):
        NoisySGD().check(EASY, NearestNeighbours(5))
    with pytest.raises(InputError, match="noisy gradients alone"):
        store = LabelStore(images()[1], 2).open(1.0, seed=0)
        SingleStage(loss="marginal").fit(images()[0], store, Rappor(eps=1.0), MODEL, session())
