"""True labels themselves, for a scheme without a guarantee; nobody else gets them."""

import math

import pytest
import torch

from labeldp.mechanisms import AdditiveLaplace, NoPrivacy, RandomizedResponse
from labeldp.store import BudgetError, LabelStore, LedgerEntry
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
    assert opened.ledger[0] == LedgerEntry("LabelEnhancement", "none", math.inf, 30, "a client")
    assert (opened.trust, opened.eps_spent) == ("none", math.inf)
    assert torch.isinf(opened._account.spent).tolist() == [True] * 30 + [False] * 20


@pytest.mark.parametrize(
    ("mechanism", "eps", "reason"),
    [
        (RandomizedResponse(1.0), 1.0, "RandomizedResponse claims privacy"),
        (AdditiveLaplace(math.inf), math.inf, "AdditiveLaplace claims privacy"),
        (PLE, 8.0, "this release costs inf, the budget is 8"),
        (NoPrivacy(), 8.0, "this release costs inf, the budget is 8"),
    ],
)
def test_no_private_mechanism_or_run_gets_true_labels(mechanism, eps, reason):
    # A learner would train on true labels under the name of a private mechanism.
    opened = store(eps)
    with pytest.raises(BudgetError, match=reason):
        opened.trusted_labels(mechanism, "by accident", ALL)
    assert opened.ledger == [] and opened.eps_spent == 0


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
