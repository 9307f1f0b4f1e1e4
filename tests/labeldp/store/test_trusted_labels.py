"""True labels themselves, for a scheme without a guarantee; nobody else gets them."""

import math
from dataclasses import dataclass

import pytest
import torch

from labeldp.mechanisms import NoPrivacy, RandomizedResponse
from labeldp.store import BudgetError, LabelStore
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.learners import SingleStage
from tests.labeldp_bench.learners.test_ple import LABELS, PLE

ALL = torch.arange(50)


def store(eps=math.inf):
    return LabelStore(LABELS, 4).open(eps, seed=0)


def test_trusted_labels_are_booked_without_a_guarantee():
    # A run on true labels would look like one that protects them.
    opened = store()
    labels = opened.trusted_labels(PLE, "a client", ALL[:30])
    assert torch.equal(labels, LABELS[:30])
    labels.zero_()  # a copy: nobody writes into the store
    assert torch.equal(opened.trusted_labels(PLE, "again", ALL[:30]), LABELS[:30])
    line = opened.ledger[0]
    assert (line.trust, line.eps, line.num_labels, line.reason) == (
        "none",
        math.inf,
        30,
        "a client",
    )
    assert (opened.trust, opened.eps_spent) == ("none", math.inf)
    assert torch.isinf(opened._account.spent).tolist() == [True] * 30 + [False] * 20


@pytest.mark.parametrize("eps", [1.0, math.inf])
def test_no_private_mechanism_gets_true_labels(eps):
    # A learner would train on true labels under the name of a private mechanism.
    opened = store(eps)
    with pytest.raises(BudgetError, match="RandomizedResponse claims privacy"):
        opened.trusted_labels(RandomizedResponse(eps), "by accident", ALL)
    assert opened.ledger == [] and opened.eps_spent == 0


@pytest.mark.parametrize("mechanism", [PLE, NoPrivacy()])
def test_a_finite_budget_gives_no_true_labels(mechanism):
    # A private run's learner could name a mechanism of its own and get every label.
    opened = store(eps=8.0)
    with pytest.raises(BudgetError, match="this release costs inf, the budget is 8"):
        opened.trusted_labels(mechanism, "by accident", ALL)
    assert opened.ledger == []


@dataclass(frozen=True)
class Greedy(SingleStage):
    """Asks for true labels whatever the mechanism."""

    def fit(self, features, store, mechanism, model, session):
        store.trusted_labels(mechanism, "greed", torch.arange(len(store)))


def test_a_whole_run_ends_at_the_wall(tiny_images, tiny_network):
    # The wall would hold in a unit test, and a learner of a real run get past it.
    for name in ("rr", "rappor", "alibi"):
        parts = compose_cell([*tiny_network, f"mechanism={name}", "eps=inf"]).build()
        opened = parts.dataset.draw(tiny_images, 0).store.open(math.inf, 0)
        with pytest.raises(BudgetError, match="claims privacy"):
            Greedy("plain").fit(None, opened, parts.mechanism, None, None)


def test_publishing_needs_trust_and_happens_once():
    # Two vectors of one label would be one more than the ledger knows.
    opened = store()
    outputs = torch.eye(4)[LABELS]
    with pytest.raises(BudgetError, match="after trusted_labels has paid"):
        opened.publish(PLE, outputs, ALL)
    opened.trusted_labels(PLE, "a client", ALL)
    release = opened.publish(PLE, outputs, ALL)
    assert opened.released_agreement == 1.0
    assert torch.equal(release.most_likely_labels, outputs.bool())
    with pytest.raises(BudgetError, match="published once"):
        opened.publish(PLE, outputs[:1], ALL[7:8])
