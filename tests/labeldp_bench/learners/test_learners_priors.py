"""What a stage takes from the model before it: prior, filter, weights to start from."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from labeldp.losses import LOSSES, loss_named
from labeldp.mechanisms import RandomizedResponse, RandomizedResponseWithPrior, TopKSubset
from labeldp.store import StoredRelease
from labeldp.supervision import Supervision
from labeldp_bench.learners import stages as multi_stage
from labeldp_bench.learners.stages import filtered, mean_top_k
from labeldp_bench.models.neighbours import NearestNeighbours
from tests.learning import RR_FIRST, TWO_STAGES, FixedClassifier, Spy, circle, session

# --- Priors ------------------------------------------------------------------------------------


def test_prior_is_in_evaluation_mode_without_augmentation(network):
    # Dropout or a random crop would blur the prior, and spend the training stream's draws.
    model, features, open_store = network
    calls = []

    def augment(batch, draws):
        calls.append(len(batch))
        return batch

    model = replace(model, trainer=replace(model.trainer, augment=[augment], precision="float32"))
    classifier = model.fit(
        features, Supervision.of([open_store().release(RR_FIRST)], LOSSES["plain"]), session()
    )
    seen = len(calls)
    assert seen > 0
    classifier.network.train()
    prior = TWO_STAGES.prior(classifier, features)
    assert len(calls) == seen and not classifier.network.training
    assert torch.equal(prior, TWO_STAGES.prior(classifier, features))
    with torch.no_grad():
        logits = classifier.network.eval()(classifier.normalise(features)).double()
    assert torch.allclose(prior, logits.softmax(1), atol=1e-6)
    # Dropout is on in training mode, or this test would show nothing.
    classifier.network.train()
    with torch.no_grad():
        assert not torch.equal(classifier.network(classifier.normalise(features)).double(), logits)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_prior_formula(temperature, weight):
    # peers.md 1.3: w normalise(q^(1/T)) + (1 - w) softmax(logits / T), q the mean prediction.
    logits = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    learner = replace(TWO_STAGES, temperature=temperature, domain_weight=weight)
    prior = learner.prior(FixedClassifier(logits), torch.arange(30))
    domain = logits.double().softmax(1).mean(0) ** (1 / temperature)
    own = (logits.double() / temperature).softmax(1)
    expected = weight * domain / domain.sum() + (1 - weight) * own
    assert prior.dtype == torch.float64
    assert torch.allclose(prior, expected, atol=1e-12)
    assert torch.allclose(prior.sum(1), torch.ones(30).double())


def test_neighbours_prior_is_the_share_of_votes():
    # The circle rows of LP-2ST use raw vote shares (peers.md 1.6).
    features, store = circle()
    supervision = Supervision.of([store.release(RR_FIRST)], LOSSES["plain"])
    classifier = NearestNeighbours(20).fit(features, supervision, session())
    shares = classifier.scores(features).double() / 20
    assert torch.allclose(classifier.probabilities(features), shares)
    sharper = shares**2 / (shares**2).sum(1, keepdim=True)
    assert torch.allclose(classifier.probabilities(features, 0.5), sharper)


def test_neighbours_without_votes_have_the_uniform_prior():
    # Zero bits, or negative estimates, would make the prior NaN.
    votes = torch.tensor([[0.0, 0.0], [-1.0, -2.0]])
    supervision = Supervision(
        torch.arange(2), votes, torch.ones(2, 2, dtype=torch.bool), loss_named("unbiased")
    )
    features = torch.zeros(2, 2)
    classifier = NearestNeighbours(2).fit(features, supervision, session())
    assert torch.equal(classifier.probabilities(features), torch.full((2, 2), 0.5).double())


# --- Filter ------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [1, 2, 5])
def test_filter_keeps_what_the_stage_model_ranks_in_its_top_k(top):
    # peers.md 1.3 item 6: the randomised label in the stage-1 model's top k.
    table = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(5, (30,), generator=torch.Generator().manual_seed(1))
    release = StoredRelease(torch.arange(5, 35), labels, RR_FIRST, 5)
    kept = filtered(release, FixedClassifier(table), torch.arange(40), top)
    expected = [
        (index, label)
        for index, label in zip(release.indices.tolist(), labels.tolist(), strict=True)
        if label in sorted(range(5), key=lambda c: -float(table[index, c]))[:top]
    ]
    assert list(zip(kept.indices.tolist(), kept.outputs.tolist(), strict=True)) == expected


def test_filter_uses_the_whole_part_of_the_mean_k_of_the_new_stage(monkeypatch):
    # k would be rounded up, or be that of another stage.
    tops = []
    monkeypatch.setattr(
        multi_stage, "filtered", lambda r, c, f, top: tops.append(top) or filtered(r, c, f, top)
    )
    features, store = circle()
    where, model = session(), Spy(NearestNeighbours(20))
    learner = replace(TWO_STAGES, fractions=[0.4, 0.3, 0.3], filter_earlier=True, temperature=0.3)
    learner.fit(features, store, RandomizedResponseWithPrior(eps=1.0), model, where)
    means = [where.notes["stage_2_mean_top_k"], where.notes["stage_3_mean_top_k"]]
    for mean, release in zip(means, store.releases[1:], strict=True):
        assert mean == pytest.approx(float(release.mechanism.top_k(release.prior).double().mean()))
        assert mean % 1 != 0
    assert tops == [int(means[0]), int(means[1]), int(means[1])]
    # All of the newest stage stays, some of the earlier ones go.
    for (supervision, *_), release in zip(model.fits[1:], store.releases[1:], strict=True):
        assert set(release.indices.tolist()) <= set(supervision.indices.tolist())
    assert len(model.fits[-1][0].indices) < len(features)


def test_filter_cuts_the_mean_k_off(monkeypatch):
    # The released code truncates: 2.9 is 2.
    tops = []
    monkeypatch.setattr(multi_stage, "mean_top_k", lambda release: 2.9)
    monkeypatch.setattr(multi_stage, "filtered", lambda r, c, f, top: tops.append(top) or r)
    features, store = circle()
    learner = replace(TWO_STAGES, filter_earlier=True)
    mechanism = RandomizedResponseWithPrior(eps=1.0)
    learner.fit(features, store, mechanism, NearestNeighbours(20), session())
    assert tops == [2]


def test_mean_top_k_of_mechanisms_with_and_without_a_choice():
    # The filter would keep everything after top-k subsets, and nothing after RR at eps=inf.
    prior = torch.tensor([0.7, 0.2, 0.05, 0.05]).double().repeat(6, 1)
    indices, bits = torch.arange(6), torch.zeros(6, 4, dtype=torch.uint8)
    subset = TopKSubset(eps=0.5)
    top = subset.top_k_and_size(prior)[0].double().mean()
    assert top < 4
    assert mean_top_k(StoredRelease(indices, bits, subset, 4, prior)) == float(top)
    plain = RandomizedResponse(eps=math.inf)
    assert mean_top_k(StoredRelease(indices, indices % 4, plain, 4, prior)) == 4


# --- Warm start --------------------------------------------------------------------------------


def test_warm_start_starts_from_the_weights_and_cold_start_does_not(network):
    # The switch would do nothing: at learning rate 0 a network ends where it starts.
    model, features, open_store = network
    frozen = replace(model.trainer, optimizer=partial(torch.optim.SGD, lr=0.0))
    mechanism = RandomizedResponseWithPrior(eps=1.0)

    def weights(warm_start):
        spy = Spy(replace(model, trainer=frozen))
        learner = replace(TWO_STAGES, warm_start=warm_start)
        learner.fit(features, open_store(), mechanism, spy, session())
        networks = [fitted.network for *_, fitted in spy.fits]
        return [torch.cat([p.flatten() for p in network.parameters()]) for network in networks]

    first, second = weights(True)
    assert torch.equal(first, second)
    first_cold, second_cold = weights(False)
    assert torch.equal(first, first_cold)
    assert not torch.equal(first_cold, second_cold)


def test_warm_start_leaves_the_earlier_network_alone(network):
    # Training stage 2 would change the model that the record calls stage 1.
    model, features, open_store = network
    spy = Spy(model)
    replace(TWO_STAGES, warm_start=True).fit(
        features, open_store(), RandomizedResponseWithPrior(eps=1.0), spy, session()
    )
    (_, cold, first), (_, warm, second) = spy.fits
    assert cold.start is None and warm.start is first
    assert first.network is not second.network
