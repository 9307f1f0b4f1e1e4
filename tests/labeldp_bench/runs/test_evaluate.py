"""Which epochs the record's accuracy comes from."""

import json

import pytest
import torch

from labeldp_bench.interfaces import Epoch
from labeldp_bench.runs.evaluate import Evaluator, accuracy_of, confusion_matrix, per_class_accuracy
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


@pytest.mark.parametrize(
    ("selection", "expected"),
    [("last", 0.12), ("mean_last_10", 0.075), ("best_validation", 0.99)],
)
def test_selection_averages_what_it_names(selection, expected, tmp_path):
    # The record's accuracy would come from other epochs than it says.
    evaluator = Evaluator(
        torch.zeros(100, 1), torch.zeros(100, dtype=torch.int64), num_classes=2, extra_tests={},
        selection=selection, seed=0, history=tmp_path / "history.csv", say=lambda text: None,
    )  # fmt: skip
    assert not (tmp_path / "history.csv").exists()
    for number in range(1, 13):  # 1 % right after epoch 1, 12 % after epoch 12
        evaluator.on_epoch(Epoch(number, 12, 0.0, 0.0, 0.1, 2.0, 50), Scores(number))
    assert accuracy_of(evaluator.finish(Scores(99))) == pytest.approx(expected)
    assert (evaluator.train_seconds, evaluator.trained_examples) == (24.0, 600)
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 13


def test_a_run_cut_off_before_its_first_epoch_still_gets_a_header(tmp_path):
    # The client of PLE saves before the server has an epoch; the rows would have no names.
    def evaluator(folder):
        folder.mkdir()
        return Evaluator(
            torch.zeros(9, 1), torch.zeros(9, dtype=torch.int64), num_classes=2, extra_tests={},
            selection="last", seed=0, history=folder / "history.csv", say=lambda text: None,
        )  # fmt: skip

    again = evaluator(tmp_path / "again")
    again.load_state_dict(evaluator(tmp_path / "first").state_dict())
    again.on_epoch(Epoch(1, 1, 0.0, 0.0, 0.1, 2.0, 9), Scores(3))
    header, row = (tmp_path / "again" / "history.csv").read_text().splitlines()
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
