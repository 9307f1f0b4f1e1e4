"""The wall: nothing leaves beyond the budget, nothing true reaches a learner."""

import copy
import inspect
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch

from labeldp.mechanisms import (
    CubeMeans,
    ExponentialCubes,
    Laplace,
    LaplaceHistogram,
    Measurement,
    NoisyMoments,
    NoPrivacy,
    PateFM,
    RandomizedResponse,
    Rappor,
)
from labeldp.mechanisms.noise import uniforms
from labeldp.store import BudgetError, LabelStore, LedgerEntry
from labeldp.support.validate import InputError

LABELS = torch.randint(4, (50,), generator=torch.Generator().manual_seed(0))
GROUPS = torch.arange(50) % 2


def opened(eps=1.0, seed=0):
    return LabelStore(LABELS, 4).open(eps, seed)


def test_closed_store_releases_nothing():
    # A data set could leak labels before any budget was set.
    with pytest.raises(BudgetError, match="the budget is 0"):
        LabelStore(LABELS, 4).release(RandomizedResponse(1.0))


def test_a_closed_store_is_opened_once_unless_one_says_what_for():
    # A second ledger would say that nothing was spent.
    closed = LabelStore(torch.arange(40) % 4, 4)
    one = closed.open(1.0, 0)
    one.release(RandomizedResponse(1.0), torch.arange(20))
    with pytest.raises(BudgetError, match="opened before"):
        closed.open(1.0, 1)
    other = closed.open(1.0, 1, again="a test of it")
    other.release(RandomizedResponse(0.5), torch.arange(10, 30))
    assert (one.eps_spent, other.eps_spent, closed.spent_in_all) == (1.0, 0.5, 1.5)
    for store in (one, other):
        with pytest.raises(BudgetError, match="only a closed one can be opened"):
            store.open(1.0, 0)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_store_is_not_copied_or_written(make_copy, tmp_path):
    # A copy has its whole budget again; a pickle puts true labels on the disk.
    store = opened()
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        make_copy(store)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        torch.save({"store": store}, tmp_path / "model.pt")


def test_second_release_of_a_label_is_refused_before_it_is_drawn():
    # Averaging over several draws would undo the noise.
    store = opened()
    store.release(Rappor(1.0))
    with pytest.raises(BudgetError, match="has spent 1, this release costs 1, the budget is 1"):
        store.release(Rappor(1.0), torch.tensor([3]))
    assert len(store.releases) == 1
    assert store.eps_spent == 1.0
    assert len(store.ledger) == 1


def test_a_release_inside_of_a_release_is_refused():
    # Both were checked before either was booked: a teacher, or another thread, had twice the eps.
    store = opened(seed=None)
    refused = []

    def vote(indices, labels):
        for ask in (lambda: store.release(Rappor(1.0)), lambda: thread()):
            with pytest.raises(BudgetError, match="another release of this store is being drawn"):
                ask()
            refused.append(store.eps_spent)
        return torch.zeros(3, dtype=torch.int64)

    def thread():
        with ThreadPoolExecutor(1) as pool:
            pool.submit(store.release, Rappor(1.0)).result()

    store.release(PateFM(1.0, teachers=2, queries=3, answers=1, parts=GROUPS, vote=vote))
    assert refused == [0.0] * 4
    assert store.eps_spent == pytest.approx(0.915, abs=1e-3)  # less than the eps of its noise
    with pytest.raises(BudgetError, match=r"has spent 0\.91"):  # the lock is free again
        store.release(Rappor(1.0))


def test_releases_of_one_label_add_up_and_of_different_labels_do_not():
    # Sequential and parallel composition must not be confused.
    store = opened()
    store.release(RandomizedResponse(1.0), torch.arange(0, 25))
    store.release(RandomizedResponse(0.4), torch.arange(25, 50))
    assert store.eps_spent == 1.0
    store.release(RandomizedResponse(0.6), torch.arange(25, 50))
    assert store.eps_spent == 1.0
    with pytest.raises(BudgetError):
        store.release(RandomizedResponse(1e-5), torch.tensor([49]))
    assert [entry.num_labels for entry in store.ledger] == [25, 25, 25]


def test_deltas_of_one_label_add_up():
    # The record said the delta of the mechanism, however often, and with which one, it was asked.
    store = opened()
    rows = torch.eye(50, dtype=torch.float64)
    store.release(RandomizedResponse(0.25))
    for delta in (1e-5, 3e-5):
        store.release(NoisyMoments(0.375, delta=delta, rows=rows))
    assert store.eps_spent == 1.0
    assert store.delta == pytest.approx(4e-5)


def claiming(eps):
    """A mechanism whose eps was changed after it was checked."""
    mechanism = RandomizedResponse(1.0)
    object.__setattr__(mechanism, "eps", eps)
    return mechanism


@dataclass(frozen=True)
class Parity(Measurement):
    """A question that the store has never heard of."""

    eps: float = 0.25
    delta: float = 1e-6
    trust = "central"

    def __call__(self, labels, limit, noise):
        assert limit == 4
        return (labels.sum() + (uniforms((), noise) < 1 / (1 + math.exp(self.eps)))) % 2


def test_a_new_question_is_a_measurement_and_nothing_else():
    # Each new one had to be taught to the store, to a door, to a base class and to the audits.
    store = opened()
    first, same = (each.release(Parity(), torch.arange(9)) for each in (store, opened()))
    assert first in (0, 1) and torch.equal(first, same)
    assert store.ledger == [LedgerEntry("Parity", "central", 0.25, 9, None, 1e-6)]
    store.release(Parity())
    assert (store.eps_spent, store.delta) == (0.5, 2e-6)
    assert store.releases == () and store.released_agreement is None


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda store: store.release(Rappor(0.1), torch.tensor([1, 1])), "distinct"),
        (lambda store: store.release(Rappor(0.1), torch.tensor([50])), r"in \[0, 49\]"),
        (lambda store: store.release(Laplace(1.0)), "Laplace is made for regression"),
        (lambda store: store.release(CubeMeans(1.0).over(GROUPS, 2)), "made for regression"),
        (lambda store: store.release(ExponentialCubes(1.0)), r"groups must be int64 of shape"),
        (lambda store: store.release(Rappor(1.0).over(GROUPS[:9], 2)), r"of shape \(50,\)"),
        (lambda store: store.release(Rappor(1.0).over(GROUPS.int(), 2)), "must be int64"),
        (lambda store: store.release(Rappor(2.0).over(GROUPS, 2)), "the budget is 1"),
        (lambda store: store.release(LaplaceHistogram(1.0), torch.tensor([1, 1])), "distinct"),
        (lambda store: store.release(LaplaceHistogram(2.0), torch.arange(2)), "the budget is 1"),
        (lambda store: store.release(NoPrivacy()), "this release costs inf, the budget is 1"),
        (lambda store: store.release(LaplaceHistogram(0.1), prior=torch.ones(4)), "no prior"),
        (lambda store: store.release(claiming(-1.0)), "eps must be a number > 0"),  # would refill
        (lambda store: store.release(claiming(math.nan)), "eps must be a number > 0"),
        *[
            (lambda store, rows=rows: store.release(Rappor(0.1), rows), "rows must be an int64")
            for rows in (torch.ones(50).bool(), torch.ones(2), torch.ones((1, 1)).long())
        ],
    ],
)
def test_what_a_store_refuses_costs_nothing(ask, reason):
    # Something would leave outside of the ledger, or a refusal would use up the budget.
    store = opened()
    with pytest.raises(InputError, match=reason):
        ask(store)
    assert store.ledger == [] and store.eps_spent == 0


def test_real_labels_have_no_classes_to_count_and_none_outside_of_their_bound():
    # Labels that are rounded to classes, or a bound that noise was not made for, would leak.
    values = torch.linspace(-1, 1, 50, dtype=torch.float64)
    store = LabelStore(values, 0, bound=1.0).open(1.0, seed=0)
    with pytest.raises(InputError, match="LaplaceHistogram is made for classification"):
        store.release(LaplaceHistogram(1.0), torch.arange(5))
    with pytest.raises(InputError, match="Rappor is made for classification"):
        store.release(Rappor(1.0))
    for wrong in (values * 2, values.float(), torch.full((3,), math.nan, dtype=torch.float64)):
        with pytest.raises(InputError, match="real labels must be"):
            LabelStore(wrong, 0, bound=1.0)
    with pytest.raises(InputError, match="labels must be in"):
        LabelStore(LABELS, 3)


def test_a_run_that_goes_on_gets_what_left_before_and_of_the_same_labels_only():
    # A second draw for one label would be a second release; other labels would get its output.
    one = opened(seed=None)
    part, counted = torch.arange(20), torch.arange(20, 30)
    drawn = (
        one.release(RandomizedResponse(1.0), part).outputs,
        one.release(LaplaceHistogram(1.0), counted),
    )
    again = opened(seed=None)
    again.load_state_dict(one.state_dict())
    assert torch.equal(again.release(RandomizedResponse(1.0), part).outputs, drawn[0])
    assert torch.equal(again.release(LaplaceHistogram(1.0), counted), drawn[1])
    assert again.ledger == one.ledger
    # Cut off once more before the second one is asked for: it must not be forgotten.
    early = opened(seed=None)
    early.load_state_dict(one.state_dict())
    early.release(RandomizedResponse(1.0), part)
    assert early.state_dict().keys() == one.state_dict().keys()
    other = opened(seed=None)
    other.load_state_dict(one.state_dict())
    with pytest.raises(BudgetError, match="release 0 was of other labels before the run was cut"):
        other.release(RandomizedResponse(1.0), part + 1)


def test_noise_is_not_shared_between_budgets_mechanisms_and_releases():
    # Two releases with common random numbers tell more of a label than both budgets together.
    labels = torch.zeros(4000, dtype=torch.int64)

    def kept(eps, part=None):
        store = LabelStore(labels, 2).open(8.0, seed=0)
        if part is not None:
            store.release(RandomizedResponse(eps), part)
        return store.release(RandomizedResponse(eps), torch.arange(2000, 4000)).outputs == 0

    def correlation(a, b):
        return abs(float(torch.corrcoef(torch.stack([a, b]).double())[0, 1]))

    assert correlation(kept(1.0), kept(1.1)) < 0.1
    assert correlation(kept(1.0), kept(1.0, torch.arange(0, 2000))) < 0.1
    assert torch.equal(kept(1.0), kept(1.0))


def test_labels_are_copied():
    # A caller who keeps the tensor could change what the store holds.
    labels = LABELS.clone()
    store = LabelStore(labels, 4).open(math.inf, seed=0)
    labels.zero_()
    assert torch.equal(store.release(NoPrivacy()).outputs, LABELS)


def test_agreement_counts_ties_as_shares():
    # The diagnostic would favour mechanisms that release many bits.
    store = LabelStore(torch.zeros(20000, dtype=torch.int64), 10).open(1.0, seed=0)
    store.release(RandomizedResponse(1.0))
    assert store.released_agreement == pytest.approx(math.e / (math.e + 9), abs=0.01)


def test_public_names_of_the_store_give_no_labels():
    # A learner could read them through an attribute.
    store = opened()
    for name, value in inspect.getmembers(store):
        if not name.startswith("_") and isinstance(value, torch.Tensor):
            raise AssertionError(f"store.{name} is a tensor")
