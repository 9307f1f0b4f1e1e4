"""What learners do with releases: stages, priors, filters, retraining, losses."""

import math
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, laplace
from torch.nn import functional

from labeldp_bench import seeding
from labeldp_bench.config import compose_cell
from labeldp_bench.data.circle import CircleGaussians
from labeldp_bench.learners import HeldOutPrior, MultiStage, SingleStage, multi_stage
from labeldp_bench.learners.base import Session, Supervision
from labeldp_bench.learners.consensus import retrained
from labeldp_bench.learners.held_out_prior import prior_notes, prior_of
from labeldp_bench.learners.multi_stage import filtered, mean_top_k, split
from labeldp_bench.losses import LOSSES, loss_named
from labeldp_bench.mechanisms import (
    AdditiveLaplace,
    BlockRR,
    HadamardResponse,
    LocalHashing,
    Mechanism,
    NoPrivacy,
    OptimalMechanism,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    RandomizedResponseWithPrior,
    Rappor,
    SubsetSelection,
    TopKSubset,
    UnaryEncoding,
)
from labeldp_bench.models.knn import NearestNeighbours
from labeldp_bench.place import Place
from labeldp_bench.records import read_record
from labeldp_bench.release import Release
from labeldp_bench.run import run_cells
from labeldp_bench.validate import InputError
from labeldp_bench.vault import LabelVault
from tests.conftest import TINY_CIRCLE

CPU = torch.device("cpu")
CIRCLE = CircleGaussians(num_classes=4, sigma=0.3, n_train=400, n_test=50, trials=1)
RR_FIRST = RandomizedResponse(eps=1.0)
TWO_STAGES = MultiStage(loss="plain", fractions=[0.5, 0.5], first=RR_FIRST)


def session(seed=0):
    return Session(seed, CPU, lambda *_: None, lambda _: None)


@dataclass(frozen=True)
class FixedClassifier:
    """Predicts the rows of a table; a feature is a row's number."""

    table: torch.Tensor

    def scores(self, features):
        return self.table[features]

    def probabilities(self, features, temperature=1.0):
        return (self.scores(features).double() / temperature).softmax(1)


@dataclass
class Spy:
    """A model that remembers what it was fitted to."""

    model: object
    fits: list = field(default_factory=list)

    def fit(self, features, supervision, session, start):
        fitted = self.model.fit(features, supervision, session, start)
        self.fits.append((supervision, session, start, fitted))
        return fitted


def circle(seed=0, eps=1.0):
    """Features and an open vault."""
    bundle = CIRCLE.draw(None, seed)
    return bundle.train_features, bundle.vault.open(eps, seed)


@pytest.fixture
def network(tiny_network, tmp_path):
    """A tiny CNN with dropout, features, and a way to open a vault over their labels."""
    parts = compose_cell([*tiny_network, "mechanism=rr", "trainer.epochs=1"]).build()
    bundle = parts["dataset"].draw(tmp_path / "data", 0)
    return parts["model"], bundle.train_features, lambda: bundle.vault.open(1.0, 0)


@pytest.fixture(params=["knn", "network"])
def setting(request):
    """Model, features and a way to open a vault, for both kinds of models."""
    if request.param == "network":
        return request.getfixturevalue("network")
    bundle = CIRCLE.draw(None, 0)
    return NearestNeighbours(20), bundle.train_features, lambda: bundle.vault.open(1.0, 0)


# --- Stages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fractions", [[0.5, 0.5], [0.8, 0.2], [0.5, 0.25, 0.25], [0.1] * 10])
@pytest.mark.parametrize("size", [10, 99, 1000])
def test_stages_are_disjoint_and_cover_everything(fractions, size):
    # A label would be released twice, or an example never used.
    parts = split(size, fractions, seed=3)
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(size))
    for part, share in zip(parts, fractions, strict=True):
        assert abs(len(part) - share * size) <= 1


def test_stages_are_random_and_follow_from_the_seed():
    # The split would follow the order of the file, or differ when a run is repeated.
    parts, again, other = (split(100, [0.5, 0.5], seed) for seed in (0, 0, 1))
    assert torch.equal(parts[0], again[0]) and not torch.equal(parts[0], other[0])
    assert not torch.equal(parts[0], torch.arange(50))


def test_an_empty_stage_is_one_line():
    # A model would be fitted to nothing.
    with pytest.raises(InputError, match=r"leave a stage of 3 examples empty, got \[0\.9, 0\.1\]"):
        split(3, [0.9, 0.1], seed=0)


LEARNERS = {
    "single": (SingleStage(loss="plain"), RandomizedResponse(eps=1.0)),
    "two": (TWO_STAGES, RandomizedResponseWithPrior(eps=1.0)),
    "three": (
        MultiStage("plain", [0.5, 0.3, 0.2], RR_FIRST, 0.5, True, True, 0.1, "consensus"),
        RandomizedResponseWithPrior(eps=1.0),
    ),
    "subset": (
        MultiStage("marginal", [0.6, 0.4], SubsetSelection(eps=1.0), filter_earlier=True),
        TopKSubset(eps=1.0),
    ),
    "held_out": (HeldOutPrior(loss="plain", fraction=0.1), BlockRR(eps=1.0, favoured=1)),
    "held_out_rr": (HeldOutPrior(loss="plain", fraction=0.1), RandomizedResponseWithPrior(eps=1.0)),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_every_label_is_released_exactly_once_at_the_full_eps(name, setting):
    # Labels would cost more than eps, or be left unused; the ledger would not show why.
    learner, mechanism = LEARNERS[name]
    model, features, open_vault = setting
    vault = open_vault()
    classifier = learner.fit(features, vault.door, mechanism, model, session())
    assert classifier.scores(features[:5]).shape == (5, vault.num_classes)
    assert vault.eps_spent == 1.0
    assert vault._ledger.spent.tolist() == [1.0] * len(features)
    assert sum(entry.num_labels for entry in vault.ledger) == len(features)
    assert {entry.eps for entry in vault.ledger} == {1.0}
    assert len(vault.ledger) == {"single": 1, "three": 3}.get(name, 2)
    released = torch.cat([release.indices for release in vault._releases])
    assert len(released.unique()) == len(released)
    assert vault.trust == ("central" if name.startswith("held_out") else "local")


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_prior_of_a_stage_comes_from_releases_of_other_parts_only(stage, setting):
    # A prior that knows the label it is used for makes RRWithPrior leak beyond eps.
    model, features, open_vault = setting
    fractions = [0.5, 0.3, 0.2]
    learner = replace(TWO_STAGES, fractions=fractions, filter_earlier=True, domain_weight=0.2)
    mechanism = RandomizedResponseWithPrior(eps=1.0)
    part = split(len(features), fractions, seed=0)[stage]

    def priors(permute):
        vault = open_vault()
        if permute:
            labels = vault._LabelVault__labels
            labels[part] = (labels[part] + 1) % vault.num_classes
        learner.fit(features, vault.door, mechanism, model, session())
        return [release.prior for release in vault._releases]

    for number, (before, after) in enumerate(zip(priors(False), priors(True), strict=True)):
        if number == 0:
            assert before is None and after is None
        elif number <= stage:
            assert torch.equal(before, after)
        else:  # the test would notice
            assert not torch.equal(before, after)


def test_first_stage_uses_its_own_mechanism():
    # Stage 1 of LP-2ST would be randomised with a prior that nobody has.
    features, vault = circle()
    first = SubsetSelection(eps=1.0)
    learner = replace(TWO_STAGES, loss="marginal", first=first)
    learner.fit(features, vault.door, TopKSubset(eps=1.0), NearestNeighbours(20), session())
    assert [release.mechanism for release in vault._releases] == [first, TopKSubset(eps=1.0)]
    assert [entry.mechanism for entry in vault.ledger] == ["SubsetSelection", "TopKSubset"]


def test_two_stages_of_lp_mst_are_lp_2st():
    # The two recipes would differ in more than the number of stages.
    scores = []
    for overrides in (["mechanism=lp_2st"], ["mechanism=lp_mst", "learner.fractions=[0.5,0.5]"]):
        parts = compose_cell([*TINY_CIRCLE, *overrides]).build()
        bundle = parts["dataset"].draw(None, 0)
        vault = bundle.vault.open(1.0, 0)
        fit = parts["learner"].fit
        classifier = fit(
            bundle.train_features, vault.door, parts["mechanism"], parts["model"], session()
        )
        scores.append(classifier.scores(bundle.test_features))
    assert torch.equal(*scores)


def test_k_rule_reaches_the_mechanism():
    # The switch between paper and released code would do nothing.
    found = {}
    for rule in ("paper", "released_code"):
        overrides = [*TINY_CIRCLE, "mechanism=lp_2st", "eps=0.5", f"mechanism.k_rule={rule}"]
        parts = compose_cell(overrides).build()
        bundle = parts["dataset"].draw(None, 0)
        where = session()
        parts["learner"].fit(
            bundle.train_features, bundle.vault.open(0.5, 0).door, parts["mechanism"],
            parts["model"], where,
        )  # fmt: skip
        found[rule] = where.notes["stage_2_mean_top_k"]
    assert 1 <= found["released_code"] < found["paper"] <= 4


# --- Priors ------------------------------------------------------------------------------------


def test_prior_is_in_evaluation_mode_without_augmentation(network):
    # Dropout or a random crop would blur the prior, and spend the training stream's draws.
    model, features, open_vault = network
    calls = []

    def augment(batch, draws):
        calls.append(len(batch))
        return batch

    model = replace(model, trainer=replace(model.trainer, augment=[augment]))
    classifier = model.fit(
        features, Supervision.of([open_vault().release(RR_FIRST)], LOSSES["plain"]), session()
    )
    seen = len(calls)
    assert seen > 0
    classifier.network.train()
    prior = TWO_STAGES.prior(classifier, features)
    assert len(calls) == seen and not classifier.network.training
    assert torch.equal(prior, TWO_STAGES.prior(classifier, features))
    with torch.no_grad():
        logits = classifier.network.eval()(classifier.normalise(features)).double()
    if classifier.precision == "float32":
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
    features, vault = circle()
    supervision = Supervision.of([vault.release(RR_FIRST)], LOSSES["plain"])
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
    release = Release(torch.arange(5, 35), labels, RR_FIRST, 5)
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
    features, vault = circle()
    where, model = session(), Spy(NearestNeighbours(20))
    learner = replace(TWO_STAGES, fractions=[0.4, 0.3, 0.3], filter_earlier=True, temperature=0.3)
    learner.fit(features, vault.door, RandomizedResponseWithPrior(eps=1.0), model, where)
    means = [where.notes["stage_2_mean_top_k"], where.notes["stage_3_mean_top_k"]]
    for mean, release in zip(means, vault._releases[1:], strict=True):
        assert mean == pytest.approx(float(release.mechanism.top_k(release.prior).double().mean()))
        assert mean % 1 != 0
    assert tops == [int(means[0]), int(means[1]), int(means[1])]
    # All of the newest stage stays, some of the earlier ones go.
    for (supervision, *_), release in zip(model.fits[1:], vault._releases[1:], strict=True):
        assert set(release.indices.tolist()) <= set(supervision.indices.tolist())
    assert len(model.fits[-1][0].indices) < len(features)


def test_filter_cuts_the_mean_k_off(monkeypatch):
    # The released code truncates: 2.9 is 2.
    tops = []
    monkeypatch.setattr(multi_stage, "mean_top_k", lambda release: 2.9)
    monkeypatch.setattr(multi_stage, "filtered", lambda r, c, f, top: tops.append(top) or r)
    features, vault = circle()
    learner = replace(TWO_STAGES, filter_earlier=True)
    mechanism = RandomizedResponseWithPrior(eps=1.0)
    learner.fit(features, vault.door, mechanism, NearestNeighbours(20), session())
    assert tops == [2]


def test_mean_top_k_of_mechanisms_with_and_without_a_choice():
    # The filter would keep everything after top-k subsets, and nothing after RR at eps=inf.
    prior = torch.tensor([0.7, 0.2, 0.05, 0.05]).double().repeat(6, 1)
    indices, bits = torch.arange(6), torch.zeros(6, 4, dtype=torch.uint8)
    subset = TopKSubset(eps=0.5)
    top = subset.top_k_and_size(prior)[0].double().mean()
    assert top < 4
    assert mean_top_k(Release(indices, bits, subset, 4, prior)) == float(top)
    plain = RandomizedResponse(eps=math.inf)
    assert mean_top_k(Release(indices, indices % 4, plain, 4, prior)) == 4


# --- Warm start --------------------------------------------------------------------------------


def test_warm_start_starts_from_the_weights_and_cold_start_does_not(network):
    # The switch would do nothing: at learning rate 0 a network ends where it starts.
    model, features, open_vault = network
    frozen = replace(model.trainer, optimizer=partial(torch.optim.SGD, lr=0.0))
    mechanism = RandomizedResponseWithPrior(eps=1.0)

    def weights(warm_start):
        spy = Spy(replace(model, trainer=frozen))
        learner = replace(TWO_STAGES, warm_start=warm_start)
        learner.fit(features, open_vault().door, mechanism, spy, session())
        networks = [fitted.network for *_, fitted in spy.fits]
        return [torch.cat([p.flatten() for p in network.parameters()]) for network in networks]

    first, second = weights(True)
    assert torch.equal(first, second)
    first_cold, second_cold = weights(False)
    assert torch.equal(first, first_cold)
    assert not torch.equal(first_cold, second_cold)


def test_warm_start_leaves_the_earlier_network_alone(network):
    # Training stage 2 would change the model that the record calls stage 1.
    model, features, open_vault = network
    spy = Spy(model)
    replace(TWO_STAGES, warm_start=True).fit(
        features, open_vault().door, RandomizedResponseWithPrior(eps=1.0), spy, session()
    )
    (_, _, start, first), (_, _, given_start, second) = spy.fits
    assert start is None and given_start is first
    assert first.network is not second.network


# --- Consensus ---------------------------------------------------------------------------------


def test_consensus_keeps_exactly_the_agreeing_examples(setting):
    # Retraining would see examples that the first model contradicts.
    model, features, open_vault = setting
    vault, where, spy = open_vault(), session(), Spy(model)
    SingleStage("plain", "consensus").fit(features, vault.door, RR_FIRST, spy, where)
    (first_seen, _, _, first), (seen, again, start, _) = spy.fits
    released = first_seen.targets
    agrees = [
        index
        for index, (row, label) in enumerate(
            zip(first.scores(features).tolist(), released.tolist(), strict=True)
        )
        if row.index(max(row)) == label
    ]
    assert 0 < len(agrees) < len(features)
    assert seen.indices.tolist() == agrees
    assert torch.equal(seen.targets, released[agrees])
    assert where.notes["consensus_share"] == pytest.approx(len(agrees) / len(features))
    # From scratch, with initial weights of its own.
    assert start is None and again.seed != where.seed
    assert vault.eps_spent == 1.0 and len(vault.ledger) == 1


def test_consensus_on_bits_agrees_with_any_class_that_explains_them():
    # An example whose bit of the predicted class is set would be dropped.
    bits = torch.tensor([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.uint8)
    release = Release(torch.arange(3), bits, Rappor(eps=1.0), 3)
    supervision = Supervision.of([release], LOSSES["bce"])
    table = torch.tensor([[0.0, 9.0, 1.0]] * 3)

    class Model:
        def fit(self, features, supervision, session, start):
            return supervision.indices.tolist()

    arguments = FixedClassifier(table), Model(), torch.arange(3), supervision, session()
    assert retrained("consensus", *arguments) == [0, 2]
    assert retrained("none", *arguments) is arguments[0]


def test_consensus_of_nobody_keeps_the_first_model():
    # Fitting to no example would fail a run that has a result.
    release = Release(torch.arange(2), torch.tensor([0, 0]), RR_FIRST, 2)
    supervision = Supervision.of([release], LOSSES["plain"])
    classifier = FixedClassifier(torch.tensor([[0.0, 1.0]] * 2))
    kept = retrained("consensus", classifier, None, torch.arange(2), supervision, session())
    assert kept is classifier


# --- Held-out prior ----------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0])
def test_histogram_noise_has_scale_two_over_eps(eps):
    # Half the scale would cost twice the eps that the ledger says.
    closed = LabelVault(torch.tensor([0] * 5 + [1] * 3 + [2] * 2), 3)
    exact = torch.tensor([5.0, 3.0, 2.0]).double()
    everyone = torch.arange(10)
    noise = torch.cat(
        [closed.open(eps, s).release_histogram(everyone, eps) - exact for s in range(1500)]
    ).numpy()
    assert kstest(noise, laplace(scale=2 / eps).cdf).pvalue > 1e-3
    assert kstest(noise, laplace(scale=1 / eps).cdf).pvalue < 1e-6


def test_prior_is_clipped_and_normalised():
    # A negative count would become a negative probability.
    assert prior_of(torch.tensor([3.0, -2.0, 1.0])).tolist() == [0.75, 0.0, 0.25]
    assert prior_of(torch.tensor([-1.0, -2.0, 0.0, -0.5])).tolist() == [0.25] * 4


def test_held_out_examples_are_not_trained_on(monkeypatch):
    # Their labels would be spent twice.
    held_out = []
    counted = LabelVault.release_histogram
    monkeypatch.setattr(
        LabelVault,
        "release_histogram",
        lambda self, indices, eps: held_out.append(indices) or counted(self, indices, eps),
    )
    features, vault = circle()
    where, spy = session(), Spy(NearestNeighbours(20))
    learner = HeldOutPrior(loss="plain")
    learner.fit(features, vault.door, RandomizedResponseWithPrior(eps=1.0), spy, where)
    trained_on = spy.fits[0][0].indices
    assert len(held_out[0]) == 4  # 1 % of 400
    union = torch.cat([held_out[0], trained_on]).sort().values
    assert torch.equal(union, torch.arange(400))
    central, local = vault.ledger
    assert (central.mechanism, central.trust, central.num_labels) == (
        "LaplaceHistogram",
        "central",
        4,
    )
    assert (local.trust, local.num_labels) == ("local", 396)
    # One global prior, the one of the notes.
    prior = vault._releases[0].prior
    assert prior.shape == (4,)
    assert where.notes["prior"] == pytest.approx(prior.tolist(), abs=1e-6)
    assert where.notes["top_k"] == int(RandomizedResponseWithPrior(eps=1.0).top_k(prior[None]))


def test_held_out_part_is_random_and_seeded():
    # The prior would come from the head of the file.
    spies = []
    for seed in (0, 0, 1):
        features, vault = circle()
        spies.append(Spy(NearestNeighbours(20)))
        HeldOutPrior("plain", 0.1).fit(features, vault.door, RR_FIRST, spies[-1], session(seed))
    first, again, other = (spy.fits[0][0].indices for spy in spies)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_histogram_can_have_a_budget_of_its_own():
    # prior_eps would be ignored, or drawn from the budget of the other labels.
    features, vault = circle()
    learner = HeldOutPrior("plain", 0.1, prior_eps=0.25)
    learner.fit(features, vault.door, RR_FIRST, NearestNeighbours(20), session())
    assert [entry.eps for entry in vault.ledger] == [0.25, 1.0]
    assert vault.eps_spent == 1.0


@pytest.mark.parametrize("mechanism", ["rrwithprior", "blockrr"])
def test_record_says_central_and_what_was_drawn(mechanism, tmp_path):
    # A central run would stand among local ones; seeds could not be told apart (1.7 iii).
    cell = compose_cell([*TINY_CIRCLE, f"mechanism={mechanism}", "learner.fraction=0.1"])
    assert run_cells([cell], Place(tmp_path, tmp_path, CPU)) == []
    record = read_record(tmp_path / cell.folder)
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


# --- Bad values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["mechanism=lp_2st", "learner.fractions=[0.5,0.4]"],
         "learner.fractions must be two or more shares that sum to 1, got [0.5, 0.4]"),
        (["mechanism=lp_2st", "learner.fractions=[1.0]"],
         "learner.fractions must be two or more shares that sum to 1, got [1.0]"),
        (["mechanism=lp_2st", "learner.fractions=[1.5,-0.5]"],
         "learner.fractions must be a number > 0, got -0.5"),
        (["mechanism=lp_2st", "learner.fractions=0.5"],
         "learner.fractions must be two or more shares that sum to 1, got [0.5]"),
        (["mechanism=lp_2st", "learner.temperature=0"],
         "learner.temperature must be a number > 0, got 0"),
        (["mechanism=lp_2st", "learner.domain_weight=1.5"],
         "learner.domain_weight must be a number >= 0 and <= 1, got 1.5"),
        (["mechanism=lp_2st", "mechanism.k_rule=code"],
         "k_rule must be one of paper, released_code; got 'code'"),
        (["mechanism=blockrr", "learner.fraction=0"],
         "learner.fraction must be a number > 0 and <= 0.999, got 0"),
        (["mechanism=blockrr", "learner.fraction=1"],
         "learner.fraction must be a number > 0 and <= 0.999, got 1"),
        (["mechanism=blockrr", "learner.prior_eps=0"],
         "learner.prior_eps must be a number > 0, got 0"),
        (["mechanism=blockrr", "learner.prior_eps=-1"],
         "learner.prior_eps must be a number > 0, got -1"),
        (["learner.loss=nll"],
         "learner.loss must be one of plain, floored, bce, softmax_bits, marginal, unbiased; "
         "got 'nll'"),
        (["learner.retrain=twice"], "learner.retrain must be one of none, consensus; got 'twice'"),
    ],
)  # fmt: skip
def test_bad_values_are_one_line(overrides, message):
    # A user would see a traceback, or a run with a value that was never meant.
    with pytest.raises(InputError) as error:
        compose_cell([*TINY_CIRCLE, *overrides]).build()
    assert str(error.value) == message


@pytest.mark.parametrize("size", [9, 300])
def test_a_part_that_would_be_empty_is_one_line(size):
    # A histogram of nothing is no prior; a model fitted to nothing ends in a traceback.
    features = torch.randn(size, 2)
    vault = LabelVault(torch.arange(size) % 3, 3).open(1.0, 0)
    learner = HeldOutPrior("plain", 0.01 if size == 9 else 0.999)
    with pytest.raises(InputError, match=r"hold out at least one of .* and leave one, got 0"):
        learner.fit(features, vault.door, RR_FIRST, NearestNeighbours(1), session())
    assert vault.eps_spent == 0


def test_prior_beyond_the_budget_is_refused():
    # A generous prior would spend more than the run claims.
    features, vault = circle()
    learner = HeldOutPrior("plain", 0.1, prior_eps=2.0)
    with pytest.raises(InputError, match=r"prior_eps must be at most eps=1, .*, got 2"):
        learner.fit(features, vault.door, RR_FIRST, NearestNeighbours(20), session())
    assert vault.eps_spent == 0.0


# --- Unbiased estimates ------------------------------------------------------------------------

SKEWED = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
UNBIASED = [
    (RandomizedResponse, {}, None), (Rappor, {}, None), (UnaryEncoding, {}, None),
    (UnaryEncoding, {"keep": 0.9}, None), (OptimizedUnaryEncoding, {}, None),
    (SubsetSelection, {}, None), (SubsetSelection, {"size": 3}, None),
    (HadamardResponse, {}, None), (LocalHashing, {}, None), (LocalHashing, {"buckets": 2}, None),
    (BlockRR, {"sigma": 0.8, "favoured": 1}, SKEWED), (BlockRR, {"favoured": 4}, SKEWED),
    (RandomizedResponseWithPrior, {}, None), (RandomizedResponseWithPrior, {}, "uniform"),
]  # fmt: skip


@pytest.mark.parametrize("eps", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(("kind", "parameters", "prior"), UNBIASED)
def test_mean_of_the_estimate_is_the_one_hot_label(kind, parameters, prior, eps):
    # `unbiased` would train on targets that are off on average.
    mechanism = kind(eps=eps, **parameters)
    prior = torch.full((4,), 0.25, dtype=torch.float64) if prior == "uniform" else prior
    outputs = mechanism.output_space(4, prior)
    probability = mechanism.log_likelihood(outputs, 4, prior).exp()
    mean = probability.T @ mechanism.unbiased(outputs, 4, prior)
    assert torch.allclose(mean, torch.eye(4, dtype=torch.float64), atol=1e-10)


def test_estimate_of_laplace_and_of_no_privacy():
    # The noise of ALIBI has mean 0, the label itself no noise at all.
    labels = torch.arange(4)
    assert torch.equal(NoPrivacy().unbiased(labels, 4), torch.eye(4).double())
    reals = AdditiveLaplace(eps=1.0).release(labels.repeat(50_000), 4, seeding.generator(0, "test"))
    estimate = AdditiveLaplace(eps=1.0).unbiased(reals, 4)
    assert estimate.dtype == torch.float64
    mean = estimate.reshape(-1, 4, 4).mean(0)
    assert (mean - torch.eye(4)).abs().max() < 5 * math.sqrt(8 / 50_000)


@pytest.mark.parametrize(
    ("mechanism", "prior", "message"),
    [
        (RandomizedResponseWithPrior(eps=1.0), torch.tensor([0.7, 0.2, 0.05, 0.05]), "is singular"),
        (
            RandomizedResponseWithPrior(eps=1.0),
            SKEWED.repeat(2, 1),
            "needs one prior for all labels",
        ),
        (TopKSubset(eps=1.0), SKEWED, "has no unbiased estimate"),
        (OptimalMechanism(eps=1.0), SKEWED, "has no unbiased estimate"),
        (UnaryEncoding(eps=1e-17, keep=0.5), None, "do not depend on the label"),
    ],
)
def test_channels_without_an_estimate_are_refused(mechanism, prior, message):
    # The inverse of a singular channel is numerical noise.
    released = torch.zeros(2, dtype=torch.int64)
    if not isinstance(mechanism, RandomizedResponseWithPrior):
        released = torch.ones((2, 4), dtype=torch.uint8)
    release = Release(torch.arange(2), released, mechanism, 4, prior)
    with pytest.raises(InputError, match=message) as error:
        LOSSES["unbiased"].targets(release)
    assert "\n" not in str(error.value)


@settings(max_examples=100, deadline=None)
@given(eps=st.floats(0.05, 20), sigma=st.floats(0.2, 3), favoured=st.integers(0, 6))
def test_blockrr_is_not_singular(eps, sigma, favoured):
    # Every label has an output of its own (B is the identity), so an estimate must exist, even
    # where all frequent labels are favoured.
    prior = torch.tensor([10.0, 9, 8, 3, 2, 1]).double() / 33
    mechanism = BlockRR(eps=eps, sigma=sigma, favoured=favoured)
    estimate = mechanism.unbiased(torch.arange(6), 6, prior)
    mean = mechanism.transition_matrix(6, prior) @ estimate
    assert torch.allclose(mean, torch.eye(6, dtype=torch.float64), atol=1e-6)


# --- Plausible classes -------------------------------------------------------------------------

PLAUSIBLE = [
    RandomizedResponse(eps=1.0), Rappor(eps=1.0), UnaryEncoding(eps=1.0),
    UnaryEncoding(eps=1.0, keep=0.95), OptimizedUnaryEncoding(eps=1.0), SubsetSelection(eps=1.0),
    LocalHashing(eps=1.0), HadamardResponse(eps=1.0), BlockRR(eps=1.0, favoured=2),
    RandomizedResponseWithPrior(eps=1.0), TopKSubset(eps=1.0), AdditiveLaplace(eps=1.0),
]  # fmt: skip


@pytest.mark.parametrize("eps", [0.01, 1.0, 8.0, 100.0, math.inf])
@pytest.mark.parametrize("num_classes", [2, 5, 30])
@pytest.mark.parametrize("mechanism", PLAUSIBLE, ids=repr)
def test_short_way_to_plausible_classes_is_the_argmax_of_the_likelihood(
    mechanism, num_classes, eps
):
    # Consensus, filters and the reported agreement would use other classes than the likelihood.
    mechanism = replace(mechanism, eps=eps)
    labels = torch.arange(num_classes).repeat(40)
    skewed = torch.arange(1.0, num_classes + 1).double()
    priors = [None]
    if isinstance(mechanism, RandomizedResponseWithPrior | TopKSubset | BlockRR):
        priors.append(skewed / skewed.sum())
    if isinstance(mechanism, RandomizedResponseWithPrior | TopKSubset):
        priors.append(priors[-1].repeat(len(labels), 1))
    for prior in priors:
        outputs = mechanism.release(labels, num_classes, seeding.generator(0, "test"), prior)
        expected = Mechanism.plausible(mechanism, outputs, num_classes, prior)
        assert torch.equal(mechanism.plausible(outputs, num_classes, prior), expected)
        release = Release(torch.arange(len(labels)), outputs, mechanism, num_classes, prior)
        assert torch.equal(release.plausible, expected)
        # The other way, where the likelihood is there already.
        again = replace(release)
        assert again.log_likelihood.shape == expected.shape
        assert torch.equal(again.plausible, expected)


# --- Losses ------------------------------------------------------------------------------------

EVIDENCE = {
    "alibi": AdditiveLaplace(eps=1.0),
    "rappor": Rappor(eps=1.0),
    "rr": RandomizedResponse(eps=2.0),
    "subset": SubsetSelection(eps=0.5),
    "hadamard": HadamardResponse(eps=1.0),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_marginal_gradient_is_that_of_alibis_posterior_cross_entropy(name):
    # peers.md 1.4: the loss would not be ALIBI's.
    mechanism, num_classes = EVIDENCE[name], 7
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(num_classes, (50,), generator=generator)
    outputs = mechanism.release(labels, num_classes, generator)
    release = Release(torch.arange(50), outputs, mechanism, num_classes)
    targets = LOSSES["marginal"].targets(release).double()
    logits = (3 * torch.randn(50, num_classes, generator=generator).double()).requires_grad_()
    (found,) = torch.autograd.grad(LOSSES["marginal"](logits, targets).sum(), logits)
    prior = logits.detach().softmax(1)  # no gradient through it
    posterior = (prior.log() + release.log_likelihood).softmax(1)
    cross_entropy = -(posterior * functional.log_softmax(logits, 1)).sum()
    (expected,) = torch.autograd.grad(cross_entropy, logits)
    assert (found - expected).abs().max() < 1e-6


def test_alibi_votes_are_equation_29():
    # The O(K) form would differ from the paper's O(K^2) posterior under the uniform prior.
    eps, num_classes = 1.0, 6
    mechanism = AdditiveLaplace(eps=eps)
    labels = torch.arange(60) % num_classes
    outputs = mechanism.release(labels, num_classes, seeding.generator(0, "test"))
    release = Release(torch.arange(60), outputs, mechanism, num_classes)
    loss = LOSSES["marginal"]
    found = loss.votes(loss.targets(release), num_classes)
    for row, output in enumerate(outputs.double().tolist()):
        weights = [
            math.exp(-sum(abs(o - (j == i)) for j, o in enumerate(output)) * eps / 2)
            for i in range(num_classes)
        ]
        posterior = [weight / sum(weights) for weight in weights]
        assert found[row].tolist() == pytest.approx(posterior, abs=1e-6)


# --- Circle at a small scale -------------------------------------------------------------------


def test_circle_rows_keep_their_order(tmp_path):
    # RAPPOR beats RR where K is large (its paper's Figure 2); ALIBI is close behind RAPPOR, and a
    # second stage helps RR. The reference numbers are measured at full size elsewhere.
    small = ["dataset.num_classes=30", "dataset.sigma=0.05", "dataset.n_train=3000",
             "dataset.n_test=500", "dataset.trials=6", "model.k=60"]  # fmt: skip
    names = ("none", "rappor", "alibi", "lp_2st", "rr")
    cells = {name: compose_cell([*small, f"mechanism={name}"]) for name in names}
    assert run_cells(list(cells.values()), Place(tmp_path, tmp_path, CPU)) == []
    found = {name: read_record(tmp_path / cell.folder) for name, cell in cells.items()}
    accuracy = {name: record["accuracy"] for name, record in found.items()}
    assert accuracy["none"] == pytest.approx(found["none"]["bayes_accuracy"], abs=0.02)
    assert accuracy["none"] > accuracy["rappor"] > accuracy["alibi"] - 0.02
    assert accuracy["alibi"] > accuracy["lp_2st"] > accuracy["rr"] > 1 / 30
