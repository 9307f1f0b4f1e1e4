"""Protective label enhancement: its wall, client, server, and that nobody takes it for private."""

import json
import math
from dataclasses import dataclass, field, replace

import pytest
import torch

from labeldp_bench.config import compose_cell
from labeldp_bench.enhancement import merge_diagnoses, read_diagnoses, sample_size
from labeldp_bench.experiments import read_experiment
from labeldp_bench.figures import PaperFigure, picture_of
from labeldp_bench.learners import EnhancedLabels, SingleStage
from labeldp_bench.learners.base import Session
from labeldp_bench.learners.ple_client import ClientLoss, diagnosis
from labeldp_bench.learners.ple_server import ServerLoss, cut
from labeldp_bench.ledger import BudgetError
from labeldp_bench.mechanisms import LabelEnhancement, NoPrivacy, RandomizedResponse
from labeldp_bench.models.network import NetworkModel
from labeldp_bench.plotting import save
from labeldp_bench.report import sweep_frame, sweep_table
from labeldp_bench.validate import InputError
from labeldp_bench.vault import LabelVault
from tests.shell import quick, records_under

LABELS = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
ALL = torch.arange(50)
PLE = LabelEnhancement()


def vault(eps=math.inf):
    return LabelVault(LABELS, 4).open(eps, seed=0)


def generator():
    return torch.Generator().manual_seed(0)


# --- The door to true labels --------------------------------------------------------------------


def test_trusted_labels_are_booked_without_a_guarantee():
    # A run on true labels would look like one that protects them.
    opened = vault()
    labels = opened.door.trusted_labels(PLE, "a client", ALL[:30])
    assert torch.equal(labels, LABELS[:30])
    labels.zero_()  # a copy: nobody writes into the vault
    assert torch.equal(opened.trusted_labels(PLE, "again", ALL[:30]), LABELS[:30])
    line = opened.ledger[0]
    assert (line.trust, line.eps, line.num_labels, line.reason) == (
        "none",
        math.inf,
        30,
        "a client",
    )
    assert (opened.trust, opened.eps_spent) == ("none", math.inf)
    assert torch.isinf(opened._ledger.spent).tolist() == [True] * 30 + [False] * 20


@pytest.mark.parametrize("eps", [1.0, math.inf])
def test_no_private_mechanism_opens_that_door(eps):
    # A learner would train on true labels under the name of a private mechanism.
    opened = vault(eps)
    with pytest.raises(BudgetError, match="RandomizedResponse claims privacy"):
        opened.door.trusted_labels(RandomizedResponse(eps), "by accident", ALL)
    assert opened.ledger == [] and opened.eps_spent == 0


@pytest.mark.parametrize("mechanism", [PLE, NoPrivacy()])
def test_a_finite_budget_keeps_that_door_shut(mechanism):
    # A private run's learner could name a mechanism of its own and get every label.
    opened = vault(eps=8.0)
    with pytest.raises(BudgetError, match="this release costs inf, the budget is 8"):
        opened.door.trusted_labels(mechanism, "by accident", ALL)
    assert opened.ledger == []


@dataclass(frozen=True)
class Greedy(SingleStage):
    """Asks for true labels whatever the mechanism."""

    def fit(self, features, vault, mechanism, model, session):
        vault.trusted_labels(mechanism, "greed", torch.arange(len(vault)))


def test_a_whole_run_ends_at_the_wall(tiny_images, tiny_network):
    # The wall would hold in a unit test, and a learner of a real run get past it.
    for name in ("rr", "rappor", "alibi"):
        parts = compose_cell([*tiny_network, f"mechanism={name}", "eps=inf"]).build()
        opened = parts["dataset"].draw(tiny_images, 0).vault.open(math.inf, 0)
        with pytest.raises(BudgetError, match="claims privacy"):
            Greedy("plain").fit(None, opened.door, parts["mechanism"], None, None)


def test_publishing_needs_trust_and_happens_once():
    # Two vectors of one label would be one more than the ledger knows.
    opened = vault()
    outputs = torch.eye(4)[LABELS]
    with pytest.raises(BudgetError, match="after trusted_labels has paid"):
        opened.publish(PLE, outputs, ALL)
    opened.trusted_labels(PLE, "a client", ALL)
    release = opened.door.publish(PLE, outputs, ALL)
    assert opened.released_agreement == 1.0
    assert torch.equal(release.plausible, outputs.bool())
    with pytest.raises(BudgetError, match="published once"):
        opened.publish(PLE, outputs[:1], ALL[7:8])


# --- The mechanism ------------------------------------------------------------------------------


def test_it_claims_nothing():
    # Tables and pictures read these.
    assert (PLE.private, PLE.trust, PLE.eps) == (False, "none", math.inf)
    with pytest.raises(InputError, match="it has no eps, got eps=1"):
        LabelEnhancement(eps=1.0)
    with pytest.raises(InputError, match="use learner=ple"):
        PLE.release(LABELS, 4, generator())
    with pytest.raises(InputError, match="no likelihood"):
        PLE.log_likelihood(torch.eye(4), 4)


@pytest.mark.parametrize("k1", [1, 2, 4])
def test_random_labels_are_others_distinct_and_uniform(k1):
    # The true label among the random ones would undo their purpose, a bias would give it away.
    labels = torch.full((6000,), 2)
    random = replace(PLE, k1=k1).random_labels(labels, 4, generator())
    assert random.shape == (6000, k1 - 1) and not (random == 2).any()
    assert all(len(set(row)) == k1 - 1 for row in random.tolist())
    counts = torch.bincount(random.flatten(), minlength=4)[[0, 1, 3]] / 6000
    assert torch.allclose(counts, torch.tensor((k1 - 1) / 3), atol=0.03)


# --- The client ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("label", "weight"), [(0, 1 - 0.3), (1, 1.0), (2, 1.0), (3, 1 + 0.9)])
def test_weight_of_the_true_label_follows_its_place(label, weight):
    # Punished below the top or compensated inside the top k1, the client is another one.
    loss = ClientLoss(LabelEnhancement(punishment=0.3, compensation=0.9, randomness=0.0))
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0]])
    targets = torch.tensor([[label, (label + 1) % 4, (label + 2) % 4]])
    plain = -logits.log_softmax(1)[0, label]
    assert loss(logits, targets).tolist() == pytest.approx([weight * float(plain)])


def test_random_labels_add_their_cross_entropies():
    # Mean or sum is a factor k1 - 1 in a3.
    loss = ClientLoss(LabelEnhancement(punishment=0.0, compensation=0.0, randomness=1.5))
    logits = torch.tensor([[2.0, 1.0, 0.5, 0.0]])
    each = -logits.log_softmax(1)[0]
    value = loss(logits, torch.tensor([[0, 3, 1]]))
    assert value.tolist() == pytest.approx([float(each[0] + 1.5 * (each[3] + each[1]))])


@pytest.mark.parametrize("punishment", [0.2, 0.4, 0.8])
def test_punishment_hides_a_label_only_beyond_a_threshold(punishment):
    # docs/ple.md: up to a1 = 1 - a3 (k1 - 1) / (K - 1) = 0.556 the true label stays on top of every
    # vector that fits its class; beyond, it ties with the largest other label.
    mechanism = LabelEnhancement(punishment=punishment)
    labels = torch.zeros(3000, dtype=torch.int64)
    random = mechanism.random_labels(labels, 10, generator())
    targets = torch.cat([labels[:, None], random], 1)
    logits = torch.zeros(10, requires_grad=True)
    descent = torch.optim.SGD([logits], lr=0.1)
    for _ in range(250):
        descent.zero_grad()
        ClientLoss(mechanism)(logits.expand(3000, 10), targets).mean().backward()
        descent.step()
    d = logits.detach().softmax(0)
    gap = float(d[0] - d[1:].max())
    if punishment < 1 - 2.0 * 2 / 9:
        weight = 1 - punishment
        assert float(d[0]) == pytest.approx(weight / (weight + 4), abs=0.003) and gap > 0.015
    else:
        assert abs(gap) < 0.005


def test_diagnosis_by_hand():
    # Delta would count the wrong place, gamma the true label, the heat map be transposed.
    published = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5]])
    found = diagnosis(published, torch.tensor([0, 0, 1, 1]))
    assert found["unreliability"] == [0.5, 0.25, 0.0]
    # k=1: class 0 has label 1 on top once of twice, class 1 label 2 once of twice; k=2: both always
    assert found["ambiguity"] == [0.5, 1.0, 1.0]
    assert found["mean"][0] == pytest.approx([0.4, 0.4, 0.2])
    assert found["mean"][1] == pytest.approx([0.15, 0.45, 0.4])


# --- The server ---------------------------------------------------------------------------------


def test_cut_keeps_the_largest_and_sums_to_one():
    # Entries that the server is to ignore would pull at it.
    vectors = torch.rand(20, 6, generator=generator())
    kept = cut(vectors, 2)
    assert ((kept > 0).sum(1) == 2).all() and torch.allclose(kept.sum(1), torch.ones(20))
    assert torch.equal(kept.argmax(1), vectors.argmax(1))
    assert torch.allclose(cut(vectors, 6), vectors / vectors.sum(1, keepdim=True))


def learner(**changes):
    parts = compose_cell(["mechanism=ple", "dataset=mnist"]).build()
    return replace(parts["learner"], **changes)


def test_negative_labels_are_those_outside_the_top_and_weigh_more_with_time():
    # lambda_t (equation 7) would start at its full weight, or grow for ever.
    p = torch.tensor([[0.5, 0.1, 0.3, 0.1]])
    server = learner(k2=2, negative_weight=3.0, ramp_epochs=4)
    for epoch, weight in [(1, 0.75), (2, 1.5), (4, 3.0), (9, 3.0)]:
        targets = server.targets(p, epoch, views=1)
        assert torch.equal(targets[:, 0], p)
        assert targets[0, 1].tolist() == pytest.approx([0, weight, 0, weight])
    assert server.targets(p, 4, views=2)[0, 1].tolist() == pytest.approx([0, 1.5, 0, 1.5])
    assert not replace(server, loss="plain").targets(p, 4, views=1)[:, 1].any()


def test_server_loss_by_hand():
    # The penalty would reward a label that was ruled out, or be infinite for a sure network.
    logits = torch.log(torch.tensor([[0.7, 0.2, 0.1]]))
    targets = torch.tensor([[[0.6, 0.4, 0.0], [0.0, 0.0, 2.0]]])
    expected = -0.6 * math.log(0.7) - 0.4 * math.log(0.2) - 2 * math.log(0.9)
    assert ServerLoss()(logits, targets).tolist() == pytest.approx([expected])
    sure = ServerLoss()(torch.tensor([[0.0, 0.0, 99.0]]), targets)
    assert torch.isfinite(sure).all() and float(sure) > expected


@dataclass(frozen=True)
class Recorder(NetworkModel):
    """Publishes a table as the client, and remembers what the server is to learn from."""

    server: list = field(default_factory=list)

    def fit(self, features, supervision, session, start=None):
        if session.stage == 0:
            return self
        self.server.append(supervision)
        return None

    def probabilities(self, features, temperature=1.0):
        return torch.rand(len(features), 10, generator=generator()).softmax(1)


@pytest.mark.parametrize("stay", [True, False])
def test_refined_targets_are_the_geometric_mean_over_the_kept_labels(stay):
    # Targets would forget what was published, or the server be taught labels that were cut.
    cell = compose_cell(["mechanism=ple", "dataset=mnist", "trainer.views=1", "learner.k2=3"])
    parts = cell.build()
    model = Recorder(parts["model"].network, parts["model"].trainer)
    opened = LabelVault(LABELS, 10).open(math.inf, 0)
    server = replace(parts["learner"], stay_within_top=stay, ramp_epochs=1)
    session = Session(0, torch.device("cpu"), lambda *_: None, lambda _: None)
    server.fit(torch.zeros(50, 28, 28, 1), opened.door, parts["mechanism"], model, session)
    (supervision,) = model.server
    first = supervision.targets[:, 0]
    assert torch.allclose(first, cut(opened.releases[0].outputs, 3))
    assert len(first) == 40 and opened.trust == "none"
    seen = torch.rand(40, 10, generator=generator()).log_softmax(1)
    refined = supervision.refine(1, seen)
    expected = seen.exp() * (first > 0) if stay else seen.exp()
    expected = expected / expected.sum(1, keepdim=True)
    assert torch.allclose(refined[:, 0], expected, atol=1e-6)
    assert ((refined[:, 1] > 0).sum(1) == 7).all()
    assert not refined[:, 1].gather(1, expected.topk(3, 1).indices).any()


def test_split_is_disjoint_random_and_only_for_validation():
    # Validation labels would be trained on, or taken out of the vault for nothing.
    trainer = compose_cell(["mechanism=ple", "dataset=mnist"]).build()["model"].trainer
    rest, held_out = learner(validation=0.2).split(100, trainer, seed=0)
    assert (len(rest), len(held_out)) == (80, 20)
    assert torch.equal(torch.cat([rest, held_out]).sort().values, torch.arange(100))
    assert not torch.equal(held_out, torch.arange(20))
    without = replace(trainer, selection="last", patience=None)
    assert [len(part) for part in learner().split(100, without, seed=0)] == [100, 0]


# --- Through the command line -------------------------------------------------------------------

SHORT = ["mechanism=ple", "learner.client.epochs=3", "learner.k2=2", "mechanism.k1=2"]


@pytest.fixture(scope="module")
def both_losses(tmp_path_factory):
    """What a sweep over the server's losses and RR prints, and its records by mechanism, loss."""
    import numpy as np

    folder = tmp_path_factory.mktemp("ple")
    draws = np.random.default_rng(0)
    arrays = {}
    for name, size in (("train", 240), ("test", 60)):
        arrays[f"y_{name}"] = draws.integers(0, 3, size)
        noise = draws.integers(0, 60, (size, 8, 8))
        arrays[f"x_{name}"] = (noise + 60 * arrays[f"y_{name}"][:, None, None]).astype(np.uint8)
    np.savez(folder / "tiny.npz", **arrays)
    data = [
        "dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", f"data_dir={folder}",
        "trainer.epochs=2", "device=cpu",
    ]  # fmt: skip
    printed = quick(["-m", *data, *SHORT, "learner.loss=enhanced,plain"], folder)
    assert printed.returncode == 0, printed.stderr
    records = [json.loads(path.read_text()) for path in records_under(folder)]
    found = {record["loss"]: record for record in records}
    private = {"mechanism": "rr", "private": True, "trust": "local", "eps": 1.0}
    identity = found["plain"]["identity"] | {"mechanism": "rr", "mechanism.eps": 1}
    return printed, found | {"private": found["plain"] | private | {"identity": identity}}


def test_record_says_that_nothing_is_guaranteed(both_losses):
    # A reader of records.csv would take PLE for a private method.
    _, records = both_losses
    for loss in ("enhanced", "plain"):
        record = records[loss]
        assert record["private"] is False and record["trust"] == "none"
        assert record["eps"] == record["eps_spent"] == "inf"
        assert not [key for key in record["identity"] if key.endswith("eps")]
        assert record["mechanism_summary"] == {"guarantee": "none"}
        assert [(line["num_labels"], line["trust"]) for line in record["ledger"]] == [
            (192, "none"), (48, "none")
        ]  # fmt: skip
        assert [line["reason"] for line in record["ledger"]] == [
            "the client trains on them", "early stopping on them"
        ]  # fmt: skip
        assert record["selection"] == "best_validation" and record["notes"]["best_epoch"] in (1, 2)
        found = record["notes"]["enhancement"]
        assert found["unreliability"][0] == pytest.approx(
            1 - record["released_agreement"], abs=1e-5
        )
    # The ablation changes the server alone.
    assert records["plain"]["notes"]["enhancement"] == records["enhanced"]["notes"]["enhancement"]


def test_every_printed_number_says_no_guarantee(both_losses):
    # A number would be copied into a table of private methods.
    printed, _ = both_losses
    rows = [line for line in printed.lines if line.startswith("|") and "PLE" in line]
    assert len(rows) == 2 and all("no guarantee" in row for row in rows)


def test_no_column_holds_it_beside_private_methods(both_losses):
    # RR at eps=inf and PLE would stand in one column, as if one number could be held against both.
    _, records = both_losses
    first, second = sweep_table(sweep_frame([records["private"], records["plain"]])).split(
        "\n\ntiny"
    )
    assert "RR" in first and "PLE" not in first
    assert "PLE" in second and "RR" not in second and "response accuracy" in second


BAD = {
    "learner.k2=0": "learner.k2 must be >= 1, got 0",
    "learner.k2=4": "learner.k2 must be in [1, 3], got 4",
    "mechanism.punishment=1.0": "mechanism.punishment must be a number >= 0 and < 1, got 1.0",
    "mechanism.punishment=-0.1": "mechanism.punishment must be a number >= 0 and < 1, got -0.1",
    "mechanism.k1=4": "mechanism.k1 must be in [1, 3], got 4",
    "dataset.limit_train=2": "learner.validation=0.2 of 2 examples leaves 2 to train on and 0 to",
    "mechanism.eps=1": "ple guarantees nothing: it has no eps, got eps=1",
    "learner.loss=marginal": "learner.loss must be one of enhanced, plain; got 'marginal'",
}


@pytest.mark.parametrize("override", BAD)
def test_bad_input_is_one_clear_line(override, tiny_network, tmp_path):
    # A user would see a traceback, or nothing.
    plus = "+" if override.startswith("mechanism.eps") else ""
    outcome = quick([*tiny_network, *SHORT[:2], "learner.k2=2", plus + override], tmp_path)
    assert outcome.returncode != 0
    (line,) = [line for line in outcome.lines if line.startswith("error:")]
    assert BAD[override] in line


def test_pairs_that_make_no_sense_are_refused(tiny_network, tmp_path):
    # The circle's points have no network; vectors that nobody makes would be waited for.
    circle = quick(["mechanism=ple"], tmp_path)
    assert "mechanism=ple needs a network (use model=cnn on images)" in circle.stdout
    single = ["mechanism=ple", "learner=single_stage", "learner.loss=plain"]
    assert "use learner=ple" in quick([*tiny_network, *single], tmp_path).stdout


def test_another_mechanism_with_this_learner_is_refused(tiny_network, tmp_path):
    # Randomised labels would go to a server that wants vectors, or true labels be trained on.
    outcome = quick(
        [*tiny_network, "mechanism=rr", "learner=ple", "learner.loss=enhanced"], tmp_path
    )
    assert "learner=ple goes with mechanism=ple, got RandomizedResponse" in outcome.stdout
    assert outcome.returncode != 0


def test_audit_finds_no_claim():
    # The audit would fail on a mechanism that has no outputs to enumerate.
    from scripts.audit import main

    assert main(["mechanism=ple", "num_classes=10"]) == 0
    assert isinstance(learner(), EnhancedLabels)


# --- Degrees of the theory, figures from records ------------------------------------------------


def test_sample_size_as_printed_and_corrected():
    # The printed n_0 would be believed where its own proof breaks off.
    given = dict(error=1.0, confidence=0.05, dimension=10, num_classes=10)
    assert sample_size(0.2, 0.3, **given, corrected=False) == math.inf
    rate = math.log(1.6 / 1.1) / 2 + math.log(1 / 0.8)
    size = math.log(20) + math.log(1 / rate) + 2 * math.log(10)
    expected = 2 / rate * (10 * size + math.log(20) + 1)
    assert sample_size(0.2, 0.3, **given, corrected=True) == pytest.approx(expected)
    assert sample_size(0.5, 0.6, **given, corrected=True) == math.inf  # Delta + gamma > 1
    assert sample_size(0.0, 0.5, **given, corrected=True) == math.inf


def test_diagnoses_survive_collection(tmp_path, both_losses):
    # Figure 4 could be drawn only by who has the runs.
    _, records = both_losses
    path, records = tmp_path / "enhancement.csv", {k: records[k] for k in ("enhanced", "plain")}
    merge_diagnoses([*records.values()], path)
    first = path.read_bytes()
    merge_diagnoses([records["plain"]], path)
    assert path.read_bytes() == first
    found = read_diagnoses(path)
    assert found == {r["config_hash"]: r["notes"]["enhancement"] for r in records.values()}
    assert read_diagnoses(tmp_path / "none.csv") == {}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_figures_are_drawn_from_records_and_say_no_guarantee(number, both_losses, tmp_path):
    # A figure would need training again, or show PLE as one of the private lines.
    _, records = both_losses
    figure = PaperFigure(read_experiment(f"ple/figure{number}"))
    made = {}
    for place, cell in enumerate(figure.cells):
        one = records["plain"] if cell.identity["mechanism"] == "ple" else records["private"]
        made[cell.config_hash] = one | {
            "eps": float(cell.identity.get("mechanism.eps", math.inf)),
            "mechanism": cell.identity["mechanism"], "identity": cell.identity,
            "released_agreement": 0.1 + 0.02 * place, "enhancement": one["notes"]["enhancement"],
        }  # fmt: skip
    points = figure.points(made)
    assert points.n.sum() == len(figure.cells)
    ple = points[points.mechanism == "ple"]
    assert len(ple) and all("no guarantee" in name for name in ple["name"])
    others = points[points.mechanism != "ple"]
    assert not any("no guarantee" in name for name in others["name"])
    save(picture_of(figure, points), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
