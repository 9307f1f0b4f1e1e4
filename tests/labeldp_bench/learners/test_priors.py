"""Priors from held-out labels and from clusters: noise, budget, whose labels, notes."""

import pytest
import torch

from labeldp.mechanisms import (
    BlockRR,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
)
from labeldp.store import BudgetError, LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.learners.stages import (
    ClusterPrior,
    HeldOutPrior,
    clusters_of,
    prior_notes,
    prior_of,
)
from labeldp_bench.models.neighbours import NearestNeighbours
from labeldp_bench.runs.environment import Environment
from tests.conftest import TINY_CIRCLE
from tests.learning import CPU, RR_FIRST, Spy, circle, record_of, session


def test_prior_is_clipped_and_normalised():
    # A negative count would become a negative probability.
    assert prior_of(torch.tensor([3.0, -2.0, 1.0])).tolist() == [0.75, 0.0, 0.25]
    assert prior_of(torch.tensor([-1.0, -2.0, 0.0, -0.5])).tolist() == [0.25] * 4


def test_held_out_examples_are_not_trained_on():
    # Their labels would be spent twice.
    features, store = circle()
    where, spy = session(), Spy(NearestNeighbours(20))
    learner = HeldOutPrior(loss="plain")
    learner.fit(features, store, RandomizedResponseWithPrior(eps=1.0), spy, where)
    trained_on = spy.fits[0][0].indices
    held_out, _ = (drawn["indices"] for drawn in store.state_dict().values())
    assert len(held_out) == 4  # 1 % of 400
    union = torch.cat([held_out, trained_on]).sort().values
    assert torch.equal(union, torch.arange(400))
    central, local = store.ledger
    assert central.mechanism == "LaplaceHistogram"
    booked = [(entry.trust, entry.num_labels) for entry in (central, local)]
    assert booked == [("central", 4), ("local", 396)]
    # One global prior, the one of the notes.
    prior = store.releases[0].prior
    assert prior.shape == (4,)
    assert where.notes["prior"] == pytest.approx(prior.tolist(), abs=1e-6)
    assert where.notes["top_k"] == int(RandomizedResponseWithPrior(eps=1.0).top_k(prior[None]))


def test_histogram_can_have_a_budget_of_its_own():
    # prior_eps would be ignored, drawn from the budget of the other labels, or exceed it.
    features, store = circle()
    learner = HeldOutPrior("plain", 0.1, prior_eps=2.0)
    with pytest.raises(InputError, match=r"prior_eps .* eps=1, .* got 2"):
        learner.fit(features, store, RR_FIRST, NearestNeighbours(20), session())
    assert store.eps_spent == 0.0
    learner = HeldOutPrior("plain", 0.1, prior_eps=0.25)
    learner.fit(features, store, RR_FIRST, NearestNeighbours(20), session())
    assert [entry.eps for entry in store.ledger] == [0.25, 1.0] and store.eps_spent == 1.0


@pytest.mark.parametrize("mechanism", ["rrwithprior", "blockrr"])
def test_record_says_central_and_what_was_drawn(mechanism, tmp_path):
    # A central run would stand among local ones; seeds could not be told apart (1.7 iii).
    cell = compose_cell([*TINY_CIRCLE, f"mechanism={mechanism}", "learner.fraction=0.1"])
    record = record_of(cell, Environment(tmp_path, tmp_path, CPU))
    assert record["trust"] == "central" and record["eps_spent"] == 1.0
    assert [line["trust"] for line in record["ledger"]] == ["central", "local"]
    notes = record["notes"]
    assert sum(notes["prior"]) == pytest.approx(1, abs=1e-5) and len(notes["prior"]) == 4
    if mechanism == "rrwithprior":
        assert 1 <= notes["top_k"] <= 4
    else:
        assert set(notes["favoured_labels"]).isdisjoint(notes["rare_labels"])


def test_notes_of_blockrr_name_its_blocks():
    # The drawn partition decides the result and would be lost.
    prior = torch.tensor([0.4, 0.05, 0.5, 0.05]).double()
    notes = prior_notes(BlockRR(eps=1.0, sigma=1.2, favoured=1), prior)
    assert notes == {"rare_labels": [1, 3], "favoured_labels": [2]}
    assert prior_notes(RandomizedResponse(eps=1.0), prior) == {}


@pytest.mark.parametrize("size", [9, 300])
def test_a_part_that_would_be_empty_is_one_line(size):
    # A histogram of nothing is no prior; a model fitted to nothing ends in a traceback.
    features = torch.randn(size, 2)
    store = LabelStore(torch.arange(size) % 3, 3).open(1.0, 0)
    learner = HeldOutPrior("plain", 0.01 if size == 9 else 0.999)
    with pytest.raises(InputError, match="got 0"):
        learner.fit(features, store, RR_FIRST, NearestNeighbours(1), session())
    assert store.eps_spent == 0


def blobs(count=1200):
    """Features of four classes, well apart, and the classes."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (count,), generator=stream)
    places = torch.tensor([[0.0, 0], [9, 0], [0, 9], [9, 9]])
    return places[labels] + torch.randn(count, 2, generator=stream), labels


def test_counts_and_release_share_the_budget_and_the_prior_helps():
    features, labels = blobs()
    store = LabelStore(labels, 4).open(0.5, seed=0)
    where, model = session(), NearestNeighbours(20)
    learner = ClusterPrior(loss="plain", prior_eps=0.2, clusters=8)
    learner.fit(features, store, RandomizedResponseWithPrior(eps=0.5), model, where)
    booked = [(line.mechanism, line.trust, line.eps) for line in store.ledger]
    assert booked == [
        ("NoisyClusters", "central", 0.2),
        ("RandomizedResponseWithPrior", "local", 0.3),
    ]
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
        learner.fit(
            features, store, RandomizedResponseWithPrior(eps=0.6), NearestNeighbours(20), session()
        )
    with pytest.raises(InputError, match=r"prior_eps .* eps=0\.05"):
        learner.fit(
            features, store, RandomizedResponseWithPrior(eps=0.05), NearestNeighbours(20), session()
        )
    with pytest.raises(InputError, match="clusters must be <="):
        learner.fit(features[:5], store, Rappor(eps=0.5), NearestNeighbours(20), session())


def test_clusters_come_from_features_alone_and_repeat():
    features, labels = blobs(400)
    one, two = (clusters_of(features, 4, seed=3) for _ in range(2))
    assert torch.equal(one, two) and one.dtype == torch.int64
    counts = torch.stack([torch.bincount(labels[one == each], minlength=4) for each in range(4)])
    assert counts.amax(1).sum() > 0.97 * len(labels)
