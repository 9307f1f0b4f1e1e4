"""Outcomes of trials, added up."""

import torch

from labeldp_bench.runs.result import Outcome, mean, standard_error


def test_trials_add_up():
    # A record would lose trials, or claim less budget than its worst trial spent.
    total = Outcome()
    total.add(Outcome(accuracies=[0.5], confusion=torch.eye(2), eps_spent=2.0, notes={"a": 1}))
    total.add(Outcome(accuracies=[0.7], confusion=torch.ones(2, 2), eps_spent=1.0, notes={"b": 2}))
    assert total.accuracies == [0.5, 0.7]
    assert total.confusion is not None and total.confusion.tolist() == [[2, 1], [1, 2]]
    assert total.eps_spent == 3.0  # of the same labels
    for spent in (4.0, 2.0):
        total.add(Outcome(eps_spent=spent, fresh_labels=True))
    assert total.eps_spent == 4.0  # the worst, not the last
    for fresh, delta in ((False, 0.25), (False, 0.5), (True, 1.0), (True, 0.5)):
        total.add(Outcome(delta=delta, fresh_labels=fresh))
    assert total.delta == 1.0  # 0.75 of the same labels, then the worst
    assert total.notes == {"a": 1, "b": 2}
    assert total.error is None


def test_the_first_error_stays():
    # The reason in error.txt would be that of a later trial, which never ran.
    first, second = ValueError("first"), ValueError("second")
    total = Outcome()
    for error in (first, second):
        total.add(Outcome(error=error))
    assert total.error is first


def test_errors_of_means():
    # One number would get an interval, or two the wrong one.
    assert mean([]) is None and standard_error([1.0]) is None
    assert mean([1.0, 3.0]) == 2.0
    assert standard_error([1.0, 3.0]) == 1.0  # sd sqrt(2), over sqrt(2)
