"""Protective label enhancement: mechanism, client, server."""

import math
from dataclasses import dataclass, field, replace

import pytest
import torch

from labeldp.mechanisms import LabelEnhancement
from labeldp.store import LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.interfaces import Session
from labeldp_bench.learners.ple import ClientLoss, EnhancedLabels, ServerLoss, cut, diagnosis
from labeldp_bench.models.networks import NetworkModel
from papers.ple.enhancement import sample_size

LABELS = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
PLE = LabelEnhancement()


def generator():
    return torch.Generator().manual_seed(0)


def test_it_claims_nothing():
    # Tables and pictures read these.
    assert (PLE.private, PLE.trust, PLE.eps) == (False, "none", math.inf)
    with pytest.raises(InputError, match="it has no eps, got eps=1"):
        LabelEnhancement(eps=1.0)
    with pytest.raises(InputError, match="use learner=ple"):
        PLE.release(LABELS, 4, generator())
    with pytest.raises(InputError, match="no likelihood"):
        PLE.log_likelihood(torch.eye(4), 4)


def test_audit_finds_no_claim():
    # The audit would fail on a mechanism that has no outputs to enumerate.
    from scripts.audit import main

    assert main(["mechanism=ple", "num_classes=10"]) == 0
    assert isinstance(learner(), EnhancedLabels)


@pytest.mark.parametrize("k1", [2, 4])
def test_random_labels_are_others_distinct_and_uniform(k1):
    # The true label among the random ones would undo their purpose, a bias would give it away.
    labels = torch.full((6000,), 2)
    random = replace(PLE, k1=k1).random_labels(labels, 4, generator())
    assert random.shape == (6000, k1 - 1) and not (random == 2).any()
    assert all(len(set(row)) == k1 - 1 for row in random.tolist())
    counts = torch.bincount(random.flatten(), minlength=4)[[0, 1, 3]] / 6000
    assert torch.allclose(counts, torch.tensor((k1 - 1) / 3), atol=0.03)


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


def test_diagnosis_by_hand():
    # Delta would count the wrong place, gamma the true label, the heat map be transposed.
    published = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5]])
    found = diagnosis(published, torch.tensor([0, 0, 1, 1]))
    assert found["unreliability"] == [0.5, 0.25, 0.0]
    # k=1: class 0 has label 1 on top once of twice, class 1 label 2 once of twice; k=2: both always
    assert found["ambiguity"] == [0.5, 1.0, 1.0]
    assert found["mean"][0] == pytest.approx([0.4, 0.4, 0.2])
    assert found["mean"][1] == pytest.approx([0.15, 0.45, 0.4])


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


def test_cut_keeps_the_largest_and_sums_to_one():
    # Entries that the server is to ignore would pull at it.
    vectors = torch.rand(20, 6, generator=generator())
    kept = cut(vectors, 2)
    assert ((kept > 0).sum(1) == 2).all() and torch.allclose(kept.sum(1), torch.ones(20))
    assert torch.equal(kept.argmax(1), vectors.argmax(1))
    assert torch.allclose(cut(vectors, 6), vectors / vectors.sum(1, keepdim=True))


def learner(**changes):
    parts = compose_cell(["mechanism=ple", "dataset=mnist"]).build()
    return replace(parts.learner, **changes)


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

    def fit(self, features, supervision, session):
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
    model = Recorder(parts.model.network, parts.model.trainer)
    opened = LabelStore(LABELS, 10).open(math.inf, 0)
    server = replace(parts.learner, stay_within_top=stay, ramp_epochs=1)
    session = Session(0, torch.device("cpu"))
    server.fit(torch.zeros(50, 28, 28, 1), opened, parts.mechanism, model, session)
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
    # Validation labels would be trained on, or taken out of the store for nothing.
    trainer = compose_cell(["mechanism=ple", "dataset=mnist"]).build().model.trainer
    rest, held_out = learner(validation=0.2).split(100, trainer, seed=0)
    assert (len(rest), len(held_out)) == (80, 20)
    assert torch.equal(torch.cat([rest, held_out]).sort().values, torch.arange(100))
    assert not torch.equal(held_out, torch.arange(20))
    without = replace(trainer, selection="last", patience=None)
    assert [len(part) for part in learner().split(100, without, seed=0)] == [100, 0]
