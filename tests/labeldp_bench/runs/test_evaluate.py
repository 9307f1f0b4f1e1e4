"""Numbers of a record: its epochs, its trials, scores of probabilities, eps of a unit."""

import json
import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms import RandomizedResponse
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Epoch
from labeldp_bench.runs.evaluate import (
    PROBABILITY_SCORES,
    Evaluator,
    accuracy_of,
    confusion_matrix,
    per_class_accuracy,
    probability_scores,
)
from labeldp_bench.runs.result import Outcome, share_of_unit
from tests.shell import quick, records_under


class Scores:
    """A classifier whose predictions are given."""

    def __init__(self, right: int) -> None:
        self.right = right

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros(len(features), 2)
        scores[: self.right, 0] = 1
        scores[self.right :, 1] = 1
        return scores


def evaluator(folder, selection):
    folder.mkdir()
    return Evaluator(
        torch.zeros(100, 1),
        torch.zeros(100, dtype=torch.int64),
        num_classes=2,
        extra_tests={},
        selection=selection,
        seed=0,
        history=folder / "history.csv",
        say=lambda text: None,
    )


@pytest.mark.parametrize(
    ("selection", "expected"),
    [("last", 0.12), ("mean_last_10", 0.075), ("best_validation", 0.99)],
)
def test_selection_averages_what_it_names(selection, expected, tmp_path):
    # The record's accuracy would come from other epochs than it says.
    scored = evaluator(tmp_path / "run", selection)
    assert not scored.history.exists()
    for number in range(1, 13):  # 1 % right after epoch 1, 12 % after epoch 12
        scored.on_epoch(Epoch(number, 12, 0.0, 0.0, 0.1, 2.0, 50), Scores(number))
    assert accuracy_of(scored.finish(Scores(99))) == pytest.approx(expected)
    assert (scored.train_seconds, scored.trained_examples) == (24.0, 600)
    assert len(scored.history.read_text().splitlines()) == 13


def test_a_run_cut_off_before_its_first_epoch_still_gets_a_header(tmp_path):
    # The client of PLE saves before the server has an epoch; the rows would have no names.
    state = evaluator(tmp_path / "first", "last").state_dict()
    again = evaluator(tmp_path / "again", "last")
    again.load_state_dict(state)
    again.on_epoch(Epoch(1, 1, 0.0, 0.0, 0.1, 2.0, 9), Scores(3))
    header, row = again.history.read_text().splitlines()
    assert header == "epoch,loss,released_hits,test_accuracy,lr,seconds" and row.startswith("1,")


def test_epochs_that_are_not_scored_leave_the_result_alone(tiny_network, tmp_path):
    # A card would spend its time on scores that nobody reads; or the mean would be of fewer.
    def run(*own):
        arguments = ["trainer.epochs=14", "trainer.selection=mean_last_10", *own]
        quick([*tiny_network, "mechanism=rr", *arguments], tmp_path)

    run("out_dir=every")
    run("trainer.eval_every=5", "out_dir=some")
    (every,), (some,) = (records_under(tmp_path / name) for name in ("every", "some"))
    assert json.loads(every.read_text())["accuracy"] == json.loads(some.read_text())["accuracy"]
    rows = [line.split(",") for line in (some.parent / "history.csv").read_text().splitlines()]
    assert [row[0] for row in rows[1:] if not row[3]] == ["1", "2", "3", "4"]


def test_rows_are_true_classes():
    # Accuracies of classes would be precisions, and confusion.csv be read the wrong way round.
    confusion = confusion_matrix(torch.tensor([0, 0, 0, 1]), torch.tensor([1, 1, 0, 1]), 3)
    assert confusion.tolist() == [[1, 2, 0], [0, 1, 0], [0, 0, 0]]
    assert per_class_accuracy(confusion) == [1 / 3, 1.0, None]


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
    # The reason in error.txt would be that of a later trial, which never ran.
    first, second = ValueError("first"), ValueError("second")
    for error in (None, first, second):
        total.add(Outcome(error=error))
    assert total.error is first


def pairs(event, labels):
    event = torch.tensor(event, dtype=torch.float64)
    return probability_scores(torch.stack([1 - event, event], 1), torch.tensor(labels))


def test_known_values():
    found = pairs([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])  # scikit-learn's own example
    assert found["auc"] == 0.75
    assert found["average_precision"] == pytest.approx(5 / 6)
    loss = -np.log([0.9, 0.6, 0.35, 0.8]).mean()
    assert found["normalised_log_likelihood"] == pytest.approx(1 - loss / math.log(2))
    assert found["calibration_error"] == pytest.approx((0.1 + 0.4 + 0.65 + 0.2) / 4)


def test_classes_without_test_examples_are_left_out():
    probabilities = torch.full((4, 3), 1 / 3, dtype=torch.float64)
    found = probability_scores(probabilities, torch.tensor([0, 1, 0, 1]))
    assert found["auc"] == 0.5
    none = probability_scores(probabilities, torch.zeros(4, dtype=torch.int64))
    assert none["auc"] is None and none["normalised_log_likelihood"] is None
    assert set(none) == set(PROBABILITY_SCORES)


def test_a_mechanism_without_pure_eps_is_refused():
    class Central(RandomizedResponse):
        delta = 1e-5

    with pytest.raises(InputError, match="no pure eps to divide"):
        share_of_unit(Central(1.0), 2)
