"""Laplace and Poisson learning on releases."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import laplacian

from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse
from labeldp.store.release import Release
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Session
from labeldp_bench.models import LaplaceLearning, NearestNeighbours, PoissonLearning
from labeldp_bench.models.embeddings import joined_neighbours
from labeldp_bench.models.graphs import LEAK
from labeldp_bench.models.neighbours import NeighbourSearch
from tests.learning import rings


def session(seed=0):
    return Session(seed, torch.device("cpu"))


def released(labels, eps, rows=None):
    rows = torch.arange(len(labels)) if rows is None else rows
    mechanism = RandomizedResponse(eps)
    outputs = mechanism.release(labels[rows], 3, torch.Generator().manual_seed(1))
    return Supervision.of([Release(rows, outputs, mechanism, 3)], loss_named("unbiased"))


def whole(points, scale):
    """The same matrix as the model's, without its code: graph, then D - W."""
    joined = joined_neighbours(points, 10, NeighbourSearch()).toarray()
    return scale * laplacian(joined) / joined.sum(1).mean()


@pytest.mark.parametrize("model", [LaplaceLearning, PoissonLearning])
def test_groups_are_learnt_at_an_eps_where_neighbours_hear_noise(model):
    points, labels = rings(6000, seed=0)
    fresh, truth = rings(500, seed=1)
    supervision = released(labels, 0.3)
    accuracies = [
        float((each.fit(points, supervision, session()).scores(fresh).argmax(1) == truth)
              .double().mean())
        for each in (model(torch.nn.Linear), NearestNeighbours(10))
    ]  # fmt: skip
    assert accuracies[0] > 0.95 and accuracies[1] < 0.6
    fitted = model(torch.nn.Linear).fit(points, supervision, session())
    assert torch.allclose(fitted.probabilities(fresh).sum(1), torch.ones(500).double())


def test_laplace_learning_solves_its_system():
    points, labels = rings(400, seed=0)
    rows = torch.arange(0, 400, 2)  # half of the examples released something
    supervision = released(labels, 1.0, rows)
    fitted = LaplaceLearning(torch.nn.Linear, penalties=[7]).fit(points, supervision, session())
    votes = supervision.votes().double().numpy()
    mass, right = np.zeros(400), np.zeros((400, 3))
    mass[rows], right[rows] = 1, votes - votes.mean(0)
    expected = np.linalg.solve(np.diag(mass) + whole(points, 7), right) + votes.mean(0)
    assert np.allclose(fitted.values.numpy(), expected, atol=1e-3)


def test_poisson_learning_solves_its_system():
    points, labels = rings(400, seed=0)
    supervision = released(labels, 1.0)
    fitted = PoissonLearning(torch.nn.Linear).fit(points, supervision, session())
    votes = supervision.votes().double().numpy()
    matrix = LEAK * np.eye(400) + whole(points, 1)
    expected = np.linalg.solve(matrix, votes - votes.mean(0))
    assert np.allclose(fitted.values.numpy(), expected, atol=1e-3 * np.abs(expected).max())


def test_noise_asks_for_a_larger_penalty():
    draws = torch.Generator().manual_seed(0)
    points = torch.rand(4000, 2, generator=draws)
    labels = (6 * points[:, 0]).long() % 3
    chosen = []
    for eps in (0.5, 8.0):
        notes = session()
        LaplaceLearning(torch.nn.Linear).fit(points, released(labels, eps), notes)
        chosen.append(notes.notes["penalty"])
    assert chosen[0] > chosen[1]


@pytest.mark.parametrize(
    ("given", "says"),
    [({"penalties": []}, "model.penalties"), ({"penalties": [0]}, "model.penalties"),
     ({"held_out": 1.0}, "model.held_out"), ({"neighbours": 0}, "model.neighbours")],
)  # fmt: skip
def test_bad_values_are_named(given, says):
    with pytest.raises(InputError, match=says):
        LaplaceLearning(torch.nn.Linear, **given)
