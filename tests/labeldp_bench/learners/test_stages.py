"""What learners do with releases: stages, what a stage takes from the one before, consensus."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from labeldp.losses import LOSSES, loss_named
from labeldp.mechanisms import (
    BlockRR,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
    SubsetSelection,
)
from labeldp.store import StoredRelease
from labeldp.supervision import Supervision, predict
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.learners import stages as multi_stage
from labeldp_bench.learners.stages import (
    HeldOutPrior,
    MultiStage,
    SingleStage,
    filtered,
    mean_top_k,
    split,
)
from labeldp_bench.models.neighbours import NearestNeighbours
from labeldp_bench.runs.environment import Environment
from tests.conftest import TINY_CIRCLE
from tests.learning import (
    CIRCLE,
    CPU,
    RR_FIRST,
    TWO_STAGES,
    FixedClassifier,
    Spy,
    circle,
    record_of,
    session,
)


@pytest.fixture(params=["knn", "network"])
def setting(request):
    """Model, features and a way to open a store, for both kinds of models."""
    if request.param == "network":
        return request.getfixturevalue("network")
    bundle = CIRCLE.draw(None, 0)
    reopened = partial(bundle.store.open, 1.0, 0, again="test")
    return NearestNeighbours(20), bundle.train_features, reopened


@pytest.mark.parametrize(
    ("size", "fractions"), [(99, [0.8, 0.2]), (1000, [0.5, 0.25, 0.25]), (10, [0.1] * 10)]
)
def test_stages_are_disjoint_random_and_cover_everything(size, fractions):
    # A label would be released twice, or an example never used; the split would follow the order
    # of the file, or differ when a run is repeated.
    parts, again, other = (split(size, fractions, seed) for seed in (3, 3, 4))
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(size))
    for part, share in zip(parts, fractions, strict=True):
        assert abs(len(part) - share * size) <= 1
    assert all(map(torch.equal, parts, again)) and not all(map(torch.equal, parts, other))
    assert not torch.equal(torch.cat(parts), torch.arange(size))


CONSENSUS = SingleStage("plain", retrain="consensus")


LEARNERS = {
    "single": (SingleStage(loss="plain"), RandomizedResponse(eps=1.0)),
    "two": (TWO_STAGES, RandomizedResponseWithPrior(eps=1.0)),
    "three": (
        MultiStage("plain", [0.5, 0.3, 0.2], RR_FIRST, 0.5, True, True, 0.1, retrain="consensus"),
        RandomizedResponseWithPrior(eps=1.0),
    ),
    "subset": (
        MultiStage("marginal", [0.6, 0.4], SubsetSelection(eps=1.0), filter_earlier=True),
        RandomizedResponseWithPrior(eps=1.0),
    ),
    "held_out": (HeldOutPrior(loss="plain", fraction=0.1), BlockRR(eps=1.0, favoured=1)),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_every_label_is_released_exactly_once_at_the_full_eps(name, setting):
    # Labels would cost more than eps, or be left unused; the ledger would not show why.
    learner, mechanism = LEARNERS[name]
    model, features, open_store = setting
    store = open_store()
    classifier = learner.fit(features, store, mechanism, model, session())
    assert classifier.scores(features[:5]).shape == (5, store.num_classes)
    assert store.eps_spent == 1.0
    assert store._account.spent.tolist() == [1.0] * len(features)
    assert sum(entry.num_labels for entry in store.ledger) == len(features)
    assert {entry.eps for entry in store.ledger} == {1.0}
    assert len(store.ledger) == {"single": 1, "three": 3}.get(name, 2)
    released = torch.cat([release.indices for release in store.releases])
    assert len(released.unique()) == len(released)
    assert store.trust == ("central" if name.startswith("held_out") else "local")
    if name == "subset":  # stage 1 would be randomised with a prior that nobody has
        kinds = [type(release.mechanism) for release in store.releases]
        assert kinds == [SubsetSelection, RandomizedResponseWithPrior]


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_prior_of_a_stage_comes_from_releases_of_other_parts_only(stage, setting):
    # A prior that knows the label it is used for makes RRWithPrior leak beyond eps.
    model, features, open_store = setting
    fractions = [0.5, 0.3, 0.2]
    learner = replace(TWO_STAGES, fractions=fractions, filter_earlier=True, domain_weight=0.2)
    mechanism = RandomizedResponseWithPrior(eps=1.0)
    part = split(len(features), fractions, seed=0)[stage]

    def priors(permute):
        store = open_store()
        if permute:
            labels = store._LabelStore__labels
            labels[part] = (labels[part] + 1) % store.num_classes
        learner.fit(features, store, mechanism, model, session())
        return [release.prior for release in store.releases]

    for number, (before, after) in enumerate(zip(priors(False), priors(True), strict=True)):
        if number == 0:
            assert before is None and after is None
        elif number <= stage:
            assert torch.equal(before, after)
        else:  # the test would notice
            assert not torch.equal(before, after)


def test_two_stages_of_lp_mst_are_lp_2st():
    # The two recipes would differ in more than the number of stages.
    scores = []
    for overrides in (["mechanism=lp_2st"], ["mechanism=lp_mst", "learner.fractions=[0.5,0.5]"]):
        parts = compose_cell([*TINY_CIRCLE, *overrides]).build()
        bundle = parts.dataset.draw(None, 0)
        store = bundle.store.open(1.0, 0, again="test")
        fit = parts.learner.fit
        classifier = fit(bundle.train_features, store, parts.mechanism, parts.model, session())
        scores.append(classifier.scores(bundle.test_features))
    assert torch.equal(*scores)


def test_consensus_keeps_exactly_the_agreeing_examples(setting):
    # Retraining would see examples that the first model contradicts.
    model, features, open_store = setting
    store, where, spy = open_store(), session(), Spy(model)
    CONSENSUS.fit(features, store, RR_FIRST, spy, where)
    (first_seen, _, first), (seen, again, _) = spy.fits
    released = first_seen.targets
    # As the evaluator would predict: votes tie, and the lowest class must not win them.
    predicted = predict(first.scores(features), where.seed)
    agrees = (predicted == released).nonzero().flatten().tolist()
    assert 0 < len(agrees) < len(features)
    assert seen.indices.tolist() == agrees
    assert torch.equal(seen.targets, released[agrees])
    assert where.notes["consensus_share"] == pytest.approx(len(agrees) / len(features))
    # From scratch, with initial weights of its own.
    assert again.start is None and again.seed != where.seed
    assert store.eps_spent == 1.0 and len(store.ledger) == 1


def test_consensus_on_bits_agrees_with_any_class_that_explains_them():
    # An example whose bit of the predicted class is set would be dropped.
    bits = torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.uint8)
    release = StoredRelease(torch.arange(3), bits, Rappor(eps=1.0), 3)
    supervision = Supervision.of([release], LOSSES["bce"])
    table = torch.tensor([[0.0, 9.0, 1.0]] * 3)

    class Model:
        def fit(self, features, supervision, session):
            return supervision.indices.tolist()

    arguments = FixedClassifier(table), Model(), torch.arange(3), supervision, session()
    assert CONSENSUS.retrained(*arguments) == [0, 2]
    assert SingleStage("plain").retrained(*arguments) is arguments[0]


def test_consensus_of_nobody_keeps_the_first_model():
    # Fitting to no example would fail a run that has a result.
    release = StoredRelease(torch.arange(2), torch.tensor([0, 0]), RR_FIRST, 2)
    supervision = Supervision.of([release], LOSSES["plain"])
    classifier = FixedClassifier(torch.tensor([[0.0, 1.0]] * 2))
    kept = CONSENSUS.retrained(classifier, None, torch.arange(2), supervision, session())
    assert kept is classifier


def test_circle_rows_keep_their_order(tmp_path):
    # RAPPOR beats RR where K is large (its paper's Figure 2); ALIBI is close behind RAPPOR, and a
    # second stage helps RR. The reference numbers are measured at full size elsewhere.
    small = ["num_classes=30", "sigma=0.05", "n_train=3000", "n_test=500", "trials=6"]
    small = ["model.k=60", *(f"dataset.{text}" for text in small)]
    names = ("none", "rappor", "alibi", "lp_2st", "rr")
    where = Environment(tmp_path, tmp_path, CPU)
    cells = {name: compose_cell([*small, f"mechanism={name}"]) for name in names}
    found = {name: record_of(cell, where) for name, cell in cells.items()}
    accuracy = {name: record["accuracy"] for name, record in found.items()}
    assert accuracy["none"] == pytest.approx(found["none"]["bayes_accuracy"], abs=0.02)
    assert accuracy["none"] > accuracy["rappor"] > accuracy["alibi"] - 0.02
    assert accuracy["alibi"] > accuracy["lp_2st"] > accuracy["rr"] > 1 / 30


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


@pytest.mark.parametrize(("temperature", "weight"), [(0.5, 0.0), (2.0, 0.3), (0.5, 1.0)])
def test_prior_formula(temperature, weight):
    # Ghazi et al., code: w normalise(q^(1/T)) + (1 - w) softmax(logits / T), q the mean prediction.
    logits = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    learner = replace(TWO_STAGES, temperature=temperature, domain_weight=weight)
    prior = learner.prior(FixedClassifier(logits), torch.arange(30))
    domain = logits.double().softmax(1).mean(0) ** (1 / temperature)
    own = (logits.double() / temperature).softmax(1)
    expected = weight * domain / domain.sum() + (1 - weight) * own
    assert prior.dtype == torch.float64
    assert torch.allclose(prior, expected, atol=1e-12)
    assert torch.allclose(prior.sum(1), torch.ones(30).double())


def test_neighbours_without_votes_have_the_uniform_prior():
    # Zero bits, or negative estimates, would make the prior NaN.
    votes = torch.tensor([[0.0, 0.0], [-1.0, -2.0]])
    supervision = Supervision(
        torch.arange(2), votes, torch.ones(2, 2, dtype=torch.bool), loss_named("unbiased")
    )
    features = torch.zeros(2, 2)
    classifier = NearestNeighbours(2).fit(features, supervision, session())
    assert torch.equal(classifier.probabilities(features), torch.full((2, 2), 0.5).double())


def test_filter_keeps_what_the_stage_model_ranks_in_its_top_k():
    # Ghazi et al. (2021), code: the randomised label in the stage-1 model's top k.
    top = 2
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


def test_mean_top_k_of_mechanisms_with_and_without_a_choice():
    # The filter would keep everything after RRWithPrior, and nothing after RR at eps=inf.
    prior = torch.tensor([0.7, 0.2, 0.05, 0.05]).double().repeat(6, 1)
    indices, labels = torch.arange(6), torch.arange(6) % 4
    chooses = RandomizedResponseWithPrior(eps=0.5)
    top = chooses.top_k(prior).double().mean()
    assert top < 4
    assert mean_top_k(StoredRelease(indices, labels, chooses, 4, prior)) == float(top)
    plain = RandomizedResponse(eps=math.inf)
    assert mean_top_k(StoredRelease(indices, labels, plain, 4, prior)) == 4


def test_warm_start_starts_from_the_weights_and_cold_start_does_not(network):
    # The switch would do nothing, or training stage 2 would change the model that the record calls
    # stage 1: at learning rate 0 a network ends where it starts.
    model, features, open_store = network
    frozen = replace(model.trainer, optimizer=partial(torch.optim.SGD, lr=0.0))
    mechanism = RandomizedResponseWithPrior(eps=1.0)

    def weights(warm_start):
        spy = Spy(replace(model, trainer=frozen))
        learner = replace(TWO_STAGES, warm_start=warm_start)
        learner.fit(features, open_store(), mechanism, spy, session())
        (_, cold, first), (_, warm, second) = spy.fits
        assert cold.start is None and warm.start is (first if warm_start else None)
        assert first.network is not second.network
        parts = [[p.flatten() for p in each.network.parameters()] for each in (first, second)]
        return [torch.cat(each) for each in parts]

    first, second = weights(True)
    assert torch.equal(first, second)
    first_cold, second_cold = weights(False)
    assert torch.equal(first, first_cold)
    assert not torch.equal(first_cold, second_cold)
