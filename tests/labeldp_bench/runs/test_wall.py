"""What a learner can reach by public names: no vault, no true labels, no test labels."""

from dataclasses import replace
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType

import pytest
import torch

from labeldp.mechanisms import RandomizedResponse
from labeldp.store.ledger import BudgetError
from labeldp.store.vault import LabelVault
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.interfaces import Learner
from labeldp_bench.runs.checkpoint import OneWay
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.evaluate import Evaluator
from labeldp_bench.runs.run import Run, TrialData, evaluator_of, run_trial


class Spy(Learner):
    """Keeps what it is given, then learns as the learner that it stands for."""

    def __init__(self, learner):
        self.loss, self._learner = learner.loss, learner

    def fit(self, features, vault, mechanism, model, session):
        self.given = [features, vault, mechanism, model, session]
        return self._learner.fit(features, vault, mechanism, model, session)


def reachable(roots):
    """Yields all objects that public names, items, `__self__` and closures lead to."""
    seen, left = set(), list(roots)
    while left:
        item = left.pop()
        if id(item) in seen or isinstance(item, ModuleType | type | str | int | float):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, MethodType | BuiltinMethodType):
            left.append(item.__self__)
        if isinstance(item, FunctionType | MethodType):
            left += [cell.cell_contents for cell in item.__closure__ or ()]
        if isinstance(item, partial):
            left += [item.func, *item.args, *item.keywords.values()]
        if isinstance(item, dict):
            left += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            left += list(item)
        elif not isinstance(item, torch.Tensor | FunctionType):
            names = [name for name in dir(item) if not name.startswith("_")]
            for name in names:
                try:
                    left.append(getattr(item, name))
                except Exception:  # a property that refuses
                    continue


def test_nothing_that_a_learner_gets_leads_to_labels(tiny_network, tmp_path):
    # A learner asked session.checkpoint.parts["vault"] for its agreement with single labels, and
    # had 40 of 40 while the ledger said 0.0041.
    cell = compose_cell([*tiny_network, "mechanism=rr", "trainer.epochs=1"])
    parts = cell.build()
    spy = Spy(parts.learner)
    run = spy_run = Run(cell, tmp_path, replace(parts, learner=spy))
    trial_data = TrialData(run, Environment(tmp_path, tmp_path / "data", torch.device("cpu"), 1))
    [outcome] = run_trial([run], 0, trial_data)
    assert outcome.error is None
    test_labels = trial_data.last.test_labels
    found = list(reachable(spy.given))
    assert len(found) > 30
    for item in found:
        assert not isinstance(item, LabelVault | Evaluator)
        assert not (isinstance(item, torch.Tensor) and torch.equal(item, test_labels))
    # The walk itself works: it finds what does lead there.
    vault, evaluator = (
        trial_data.last.vault,
        evaluator_of(spy_run, trial_data.last, 0, trial_data.environment.device),
    )
    for leads_there in (
        trial_data, vault.release, lambda: vault, partial(print, vault), {"key": [(vault,)]},
    ):  # fmt: skip
        assert any(isinstance(item, LabelVault) for item in reachable([leads_there]))
    for leads_there in (evaluator.on_epoch, lambda epoch: evaluator.on_epoch(epoch, None)):
        assert any(isinstance(item, Evaluator) for item in reachable([leads_there]))
    assert not any(isinstance(item, Evaluator) for item in reachable([OneWay(evaluator.on_epoch)]))


def test_a_closed_vault_is_opened_once_unless_one_says_what_for():
    # A second ledger would say that nothing was spent.
    closed = LabelVault(torch.arange(40) % 4, 4)
    one = closed.open(1.0, 0)
    one.release(RandomizedResponse(1.0), torch.arange(20))
    with pytest.raises(BudgetError, match="opened before"):
        closed.open(1.0, 1)
    other = closed.open(1.0, 1, again="a test of it")
    other.release(RandomizedResponse(0.5), torch.arange(10, 30))
    assert (one.eps_spent, other.eps_spent, closed.spent_in_all) == (1.0, 0.5, 1.5)
    for opened in (one, other):
        with pytest.raises(BudgetError, match="only a closed one can be opened"):
            opened.open(1.0, 0)
