"""Which epochs the record's accuracy comes from."""

import pytest
import torch

from labeldp_bench.runs.evaluate import Evaluator, accuracy_of
from labeldp_bench.supervision.interfaces import Epoch


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
