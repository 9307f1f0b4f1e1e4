"""Descents by a curator's answers: the projection, the way through the store, what is refused."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from labeldp.mechanisms import LabelDPPro, Rappor
from labeldp.store import LabelStore
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.learners.noisy_descent import NoisyGradients, NoisySGD, _Descent, nearest_in_hull
from labeldp_bench.learners.stages import SingleStage
from labeldp_bench.models.linear_heads import Ridge
from labeldp_bench.models.neighbours import NearestNeighbours
from labeldp_bench.models.networks import GradientNetwork
from tests.learning import accuracy, session
from tests.training import EXACT


@dataclass
class Weights:
    """Scores are features times weights."""

    weights: torch.Tensor

    def scores(self, features):
        return features @ self.weights


class RawLinear(Ridge):
    """A linear model on the features as they are."""

    def __init__(self):
        pass

    def linear(self, features, session):
        return SimpleNamespace(rows=features, classifier=Weights)


def problem(count=4000):
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (count,), generator=stream)
    rows = torch.randn(count, 5, generator=stream) + 4 * torch.eye(5)[labels]
    return torch.nn.functional.normalize(rows), labels


def test_nearest_in_hull_is_found_and_stays_inside():
    rows, labels = problem(300)
    truth = torch.stack([rows[labels == label].sum(0) for label in range(3)], 1)
    found = nearest_in_hull(rows, truth, 2000)
    assert float((found - truth).norm()) < 0.02 * float(truth.norm())  # inside: it stays
    outside = truth + 60 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))
    found = nearest_in_hull(rows, outside, 2000)
    # The sums over all classes are those of all rows, and no corner lies beyond the nearest.
    assert torch.allclose(found.sum(1), rows.sum(0), atol=1e-2)
    beyond = (rows @ (outside - found)).amax(1).sum() - ((outside - found) * found).sum()
    assert float(beyond) < 0.02 * float((outside - found).square().sum())
    assert float((found - truth).norm()) < 0.6 * float((outside - truth).norm())


def test_noise_alone_moves_a_logit_no_further_than_asked():
    # The weights that pure noise gives, with examples that cancel out.
    rows = torch.cat([torch.eye(4), -torch.eye(4)]).repeat(50, 1)
    store = LabelStore(torch.arange(400) % 2, 2).open(0.5, seed=0)
    learner = NoisyGradients(projection="none", noise_reach=0.1, averaged=1e-3)
    fitted = learner.fit(rows, store, LabelDPPro(eps=0.5, steps=50), RawLinear(), session())
    assert 0.02 < float(fitted.weights.std()) < 0.2


COUNT = 600


MODEL = GradientNetwork(EXACT)


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
@pytest.mark.parametrize("kind", ["gradients", "sgd"])
def test_it_learns_from_one_entry_of_the_ledger(kind, projection):
    if kind == "gradients":
        features, labels = problem()
        learner = NoisyGradients(projection=projection, public_batch=500)
        model, mechanism = RawLinear(), LabelDPPro(eps=1.0, steps=30, share=0.2)
    else:
        features, labels = images()
        learner = NoisySGD(projection=projection, public_batch=50, iterations=5)
        model, mechanism = MODEL, EASY
    eps, where = mechanism.eps, session()
    store = LabelStore(labels, 3).open(eps, seed=0)
    fitted = learner.fit(features, store, mechanism, model, where)
    assert accuracy(fitted, features, labels) > 0.9
    booked = [(line.mechanism, line.trust, line.eps, line.delta) for line in store.ledger]
    assert booked == [("LabelDPPro", "central", eps, 1e-5)]
    assert where.notes.get("learning_rate", 0) <= 30
    # A run that goes on gets the same answers, without a draw or a label.
    again = LabelStore(torch.zeros_like(labels), 3).open(eps, seed=0)
    again.load_state_dict(store.state_dict())
    repeated = learner.fit(features, again, mechanism, model, session())
    assert torch.equal(repeated.scores(features), fitted.scores(features))


def test_another_recipe_gets_noise_of_its_own():
    # The same noise on gradients of other weights would show labels by a difference.
    _, labels = images()
    asked = {}
    for rate in (0.1, 0.2):
        seen = asked.setdefault(rate, [])

        class Listening(LabelDPPro):
            def descended(self, labels, descent, generator, seen=seen):
                seen.append(torch.rand(3, generator=generator))
                return super().descended(labels, descent, generator)

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
    with pytest.raises(Diverged, match="learning_rate"):
        learnt(NoisySGD(projection="none", learning_rate=1e38), store)


def test_it_refuses_single_labels_and_other_models():
    store = LabelStore(images()[1], 2).open(1.0, seed=0)
    for learner, model in ((NoisyGradients(), RawLinear()), (NoisySGD(), MODEL)):
        with pytest.raises(InputError, match="mechanism=labeldp_pro"):
            learner.check(Rappor(eps=1.0), model)
        with pytest.raises(InputError, match=r"is not linear|model=tiny_cnn"):
            learner.check(EASY, NearestNeighbours(5))
    with pytest.raises(InputError, match="learner=noisy_sgd"):
        SingleStage(loss="marginal").fit(images()[0], store, Rappor(eps=1.0), MODEL, session())


def test_the_last_weights_of_noisy_gradients_are_averaged():
    # The first ones are far from the minimum, and their mean with the last is a worse classifier.
    features, labels = problem()

    def weights(steps, averaged):
        learner = NoisyGradients(projection="none", averaged=averaged)
        store = LabelStore(labels, 3).open(math.inf, seed=0)
        mechanism = LabelDPPro(eps=math.inf, steps=steps, share=1.0)
        return learner.fit(features, store, mechanism, RawLinear(), session()).weights

    one_by_one = [weights(steps, 1e-3) for steps in (1, 2, 3, 4)]
    assert not torch.allclose(one_by_one[0], one_by_one[3], atol=1e-3)
    assert torch.allclose(weights(4, 0.5), (one_by_one[2] + one_by_one[3]) / 2, atol=1e-5)
    assert torch.allclose(weights(4, 1.0), torch.stack(one_by_one).mean(0), atol=1e-5)
