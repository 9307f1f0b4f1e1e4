"""Noisy gradients: the projection, the learner's way through the store, what it refuses."""

from dataclasses import dataclass

import pytest
import torch

from labeldp.mechanisms import LabelDPPro, Rappor
from labeldp.store import LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.learners import NoisyGradients
from labeldp_bench.learners.noisy_descent import nearest_in_hull
from labeldp_bench.models.neighbours import NearestNeighbours
from tests.learning import session


@dataclass
class Weights:
    """Scores are features times weights."""

    weights: torch.Tensor

    def scores(self, features):
        return features @ self.weights


@dataclass
class LinearModel:
    """A linear model on the features as they are."""

    def check_linear(self):
        return None

    def linear(self, features, session):
        self.rows = features
        return self

    def classifier(self, weights):
        return Weights(weights)


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


@pytest.mark.parametrize("projection", ["hull", "none"])
def test_it_learns_from_one_entry_of_the_ledger(projection):
    rows, labels = problem()
    store = LabelStore(labels, 3).open(1.0, seed=0)
    where = session()
    learner = NoisyGradients(projection=projection, public_batch=500)
    mechanism = LabelDPPro(eps=1.0, steps=30, share=0.2)
    fitted = learner.fit(rows, store, mechanism, LinearModel(), where)
    assert (fitted.scores(rows).argmax(1) == labels).float().mean() > 0.9
    assert [(line.mechanism, line.trust, line.eps) for line in store.ledger] == [
        ("LabelDPPro", "central", 1.0)
    ]
    assert where.notes["learning_rate"] <= 30
    # A run that goes on gets the same answers, without a draw.
    again = LabelStore(torch.zeros_like(labels), 3).open(1.0, seed=0)
    again.load_state_dict(store.state_dict())
    repeated = learner.fit(rows, again, mechanism, LinearModel(), session())
    assert torch.equal(repeated.weights, fitted.weights)


def test_noise_alone_moves_a_logit_no_further_than_asked():
    # The weights that pure noise gives, with examples that cancel out.
    rows = torch.cat([torch.eye(4), -torch.eye(4)]).repeat(50, 1)
    store = LabelStore(torch.arange(400) % 2, 2).open(0.5, seed=0)
    learner = NoisyGradients(projection="none", noise_reach=0.1, averaged=1e-3)
    fitted = learner.fit(rows, store, LabelDPPro(eps=0.5, steps=50), LinearModel(), session())
    assert 0.02 < float(fitted.weights.std()) < 0.2


def test_it_refuses_single_labels_other_models_and_other_losses():
    rows, labels = problem(50)
    store = LabelStore(labels, 3).open(1.0, seed=0)
    with pytest.raises(InputError, match="needs mechanism=labeldp_pro"):
        NoisyGradients().fit(rows, store, Rappor(eps=1.0), LinearModel(), session())
    with pytest.raises(InputError, match="is not linear"):  # asked before anything is pre-trained
        NoisyGradients().check(LabelDPPro(eps=1.0), NearestNeighbours(5))
    with pytest.raises(InputError, match="is not linear"):
        NoisyGradients().fit(rows, store, LabelDPPro(eps=1.0), NearestNeighbours(5), session())
    with pytest.raises(InputError, match="must be plain, got 'bce'"):
        NoisyGradients(loss="bce")
