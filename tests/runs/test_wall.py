"""What a learner can reach by public names: no vault, no true labels, no test labels."""

from dataclasses import replace
from types import FunctionType, MethodType, ModuleType

import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.privacy.vault import LabelVault
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.evaluate import Evaluator
from labeldp_bench.runs.run import Run, TrialData, run_trial
from labeldp_bench.supervision.interfaces import Learner


class Spy(Learner):
    """Keeps what it is given, then learns as the learner that it stands for."""

    def __init__(self, learner):
        self.loss, self._learner = learner.loss, learner

    def fit(self, features, vault, mechanism, model, session):
        self.given = [features, vault, mechanism, model, session]
        return self._learner.fit(features, vault, mechanism, model, session)


def reachable(roots):
    """Yields all objects that public names, items and `__self__` lead to."""
    seen, left = set(), list(roots)
    while left:
        item = left.pop()
        if id(item) in seen or isinstance(item, ModuleType | type | str | int | float):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, MethodType):
            left.append(item.__self__)
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
    run = Run(cell, tmp_path, replace(parts, learner=spy))
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
    assert any(isinstance(item, LabelVault) for item in reachable([trial_data]))
