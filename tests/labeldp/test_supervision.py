"""From scores to a class."""

import pytest
import torch

from labeldp.supervision import predict, vote_shares


def test_ties_go_by_a_random_order_of_classes():
    # The lowest class would win every tie of integer votes, and its accuracy with it.
    scores = torch.tensor([[3.0, 1.0, 3.0, 3.0]]).repeat(5, 1)
    found = [predict(scores, seed) for seed in range(40)]
    assert {int(each[0]) for each in found} == {0, 2, 3}
    assert all((each == each[0]).all() for each in found)  # one order for all rows
    assert torch.equal(predict(scores, 7), found[7])


def test_the_largest_score_wins_without_ties():
    # The order that breaks ties would move predictions.
    scores = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    for seed in range(5):
        assert torch.equal(predict(scores, seed), scores.argmax(1))


def test_vote_shares_sharpen_and_sum_to_one():
    # A prior made of them would not be one.
    votes = torch.tensor([[1.0, 3.0], [0.0, 0.0], [-2.0, 5.0]])
    assert vote_shares(votes, 1.0).tolist() == [[0.25, 0.75], [0.5, 0.5], [0.0, 1.0]]
    assert vote_shares(votes, 0.5)[0].tolist() == pytest.approx([0.1, 0.9])
