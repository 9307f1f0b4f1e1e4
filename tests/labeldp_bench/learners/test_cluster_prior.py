"""Priors from clusters: the split of the budget, whose counts they are, what they are worth."""

import math

import pytest
import torch

from labeldp.mechanisms import RandomizedResponseWithPrior, Rappor, TopKSubset
from labeldp.store import BudgetError, LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Model
from labeldp_bench.learners import ClusterPrior
from labeldp_bench.learners.stages import clusters_of
from labeldp_bench.models.neighbours import NearestNeighbours
from tests.learning import session


class Neighbours(Model):
    """Nearest neighbours that remember the release."""

    def precision_on(self, device):
        return "float64"

    def fit(self, features, supervision, session):
        self.supervision = supervision
        return NearestNeighbours(20).fit(features, supervision, session)


def blobs(count=1200):
    """Features of four classes, well apart, and the classes."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (count,), generator=stream)
    places = torch.tensor([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    return places[labels] + torch.randn(count, 2, generator=stream), labels


@pytest.mark.parametrize(
    ("kind", "loss"), [(RandomizedResponseWithPrior, "plain"), (TopKSubset, "marginal")]
)
def test_counts_and_release_share_the_budget_and_the_prior_helps(kind, loss):
    features, labels = blobs()
    store = LabelStore(labels, 4).open(0.5, seed=0)
    where, model = session(), Neighbours()
    learner = ClusterPrior(loss=loss, prior_eps=0.2, clusters=8)
    learner.fit(features, store, kind(eps=0.5), model, where)
    assert [(line.mechanism, line.trust, line.eps) for line in store.ledger] == [
        ("NoisyClusters", "central", 0.2), (kind.__name__, "local", 0.3)
    ]  # fmt: skip
    assert store.eps_spent == pytest.approx(0.5) and store.trust == "central"
    # Each cluster has one class, which its counts tell: few labels are left. Without: 0.36.
    assert where.notes["mean_top_k"] < 2.5 and store.response_accuracy > 0.5
    prior = store.releases[0].prior
    assert prior.shape == (1200, 4) and torch.allclose(prior.sum(1), torch.ones(1200).double())


def test_a_budget_is_not_exceeded():
    features, labels = blobs(200)
    store = LabelStore(labels, 4).open(0.5, seed=0)
    learner = ClusterPrior(loss="plain", clusters=8)
    with pytest.raises(BudgetError):  # a mechanism at more than the run's eps
        learner.fit(features, store, TopKSubset(eps=0.6), Neighbours(), session())
    with pytest.raises(InputError, match=r"prior_eps must be less than eps=0.05"):
        learner.fit(features, store, TopKSubset(eps=0.05), Neighbours(), session())
    with pytest.raises(InputError, match="clusters must be <= the number of training examples"):
        learner.fit(features[:5], store, Rappor(eps=0.5), Neighbours(), session())


def test_without_privacy_the_counts_are_exact():
    features, labels = blobs(200)
    store = LabelStore(labels, 4).open(math.inf, seed=0)
    learner, model = ClusterPrior(loss="plain", clusters=4), Neighbours()
    mechanism = RandomizedResponseWithPrior(eps=math.inf)
    learner.fit(features, store, mechanism, model, session())
    assert store.response_accuracy == 1


def test_clusters_come_from_features_alone_and_repeat():
    features, labels = blobs(400)
    one, two = (clusters_of(features, 4, seed=3) for _ in range(2))
    assert torch.equal(one, two) and one.dtype == torch.int64
    counts = torch.stack([torch.bincount(labels[one == each], minlength=4) for each in range(4)])
    assert counts.amax(1).sum() > 0.97 * len(labels)
