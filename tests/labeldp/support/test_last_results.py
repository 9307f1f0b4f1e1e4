"""What is kept comes back for the same arguments only."""

import pytest
import torch

from labeldp.support.last_results import LastResults

POINTS = torch.tensor([[0.0, 1.0], [2.0, 3.0]])


def test_one_object_and_equal_tensors_share_a_result() -> None:
    last = LastResults[str]()
    assert last.get((POINTS, 3, None), lambda: "first") == "first"
    assert last.get((POINTS, 3, None), lambda: "again") == "first"
    assert last.get((POINTS.clone(), 3, None), lambda: "again") == "first"


@pytest.mark.parametrize(
    "key",
    [
        (POINTS, 4),
        (POINTS + 1, 3),
        (POINTS.flatten(), 3),
        (POINTS.double(), 3),
        (POINTS[:1], 3),
        (POINTS,),
        (None, 3),
        (POINTS, POINTS),
    ],
)
def test_other_arguments_make_another_result(key: tuple[object, ...]) -> None:
    last = LastResults[str](keep=2)
    last.get((POINTS, 3), lambda: "first")
    assert last.get(key, lambda: "other") == "other"
    assert last.get((POINTS, 3), lambda: "again") == "first"  # the second place was free


def test_the_oldest_result_goes_first() -> None:
    last = LastResults[int](keep=2)
    for number in (1, 2, 3):
        last.get((number,), lambda number=number: number)
    assert [last.get((number,), lambda: -1) for number in (2, 3, 1)] == [2, 3, -1]


def test_a_copied_tensor_that_changed_in_place_makes_another_result() -> None:
    prior = torch.tensor([0.5, 0.5])
    last = LastResults[float](copy=True)
    last.get((prior,), lambda: float(prior[0]))
    prior[0] = 0.25
    assert last.get((prior,), lambda: float(prior[0])) == 0.25
