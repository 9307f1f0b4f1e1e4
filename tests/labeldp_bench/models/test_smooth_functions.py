"""Smooth functions on a graph of neighbours."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackNoConvergence
from scipy.spatial import cKDTree

from labeldp.support.validate import InputError
from labeldp_bench.models.embeddings import SmoothFunctions
from labeldp_bench.models.neighbours import NeighbourSearch
from tests.learning import rings


def walk_of(points, neighbours):
    """Returns the random walk on the graph, float64 (n, n), by a loop."""
    _, near = cKDTree(points.numpy()).query(points.numpy(), neighbours + 1)
    joined = np.zeros((len(points), len(points)))
    for row, columns in enumerate(near):
        for column in columns:
            if row != column:
                joined[row, column] = joined[column, row] = 1
    return joined / joined.sum(1, keepdims=True)


@pytest.mark.parametrize("dense_up_to", [1000, 200], ids=["dense", "iterated"])
def test_functions_are_what_the_walk_keeps_up_to_a_factor(dense_up_to, monkeypatch):
    # Others would not be smooth: the mean over the neighbours would be another function.
    monkeypatch.setattr("labeldp_bench.models.embeddings.DENSE_UP_TO", dense_up_to)
    points, _ = rings(900, seed=0)  # three components of 300
    smooth = SmoothFunctions.over(points, 8, 12, NeighbourSearch())
    walk = torch.from_numpy(walk_of(points, 8))
    assert torch.allclose(walk @ smooth.values, smooth.values * smooth.eigenvalues, atol=1e-5)
    eigenvalues = np.sort(np.linalg.eigvals(walk.numpy()).real)[::-1]
    assert np.allclose(smooth.eigenvalues, eigenvalues[:12], atol=1e-6)
    assert torch.allclose(smooth.values.square().mean(0), torch.ones(12).double())


def test_rough_functions_are_left_out():
    # A small eigenvalue would blow up what a new point gets.
    points, _ = rings(60, seed=0)
    smooth = SmoothFunctions.over(points, 10, 60, NeighbourSearch())
    assert 1 < smooth.values.shape[1] < 60
    assert smooth.eigenvalues.min() > 0.5


def test_new_points_get_what_points_near_them_have():
    points, ring = rings(1500, seed=0)
    smooth = SmoothFunctions.over(points, 8, 300, NeighbourSearch())
    fresh, fresh_ring = rings(300, seed=1)
    found = smooth.at(fresh)
    near = cKDTree(points.numpy()).query(fresh.numpy(), 8)[1]
    assert smooth.eigenvalues.min() < 0.8  # where dividing by it shows
    assert torch.allclose(found, smooth.values[near].mean(1) / smooth.eigenvalues)
    closest = smooth.values[near[:, 0], :6]
    assert float((found[:, :6] - closest).square().mean()) < 0.05
    # Three rings without an edge between them: three eigenvalues of 1, three constants.
    assert torch.allclose(smooth.eigenvalues[:3], torch.ones(3).double(), atol=1e-9)
    means = torch.stack([smooth.values[ring == each, :3].mean(0) for each in range(3)])
    assert torch.allclose(found[:, :3], means[fresh_ring], atol=1e-3)


def test_a_few_points_apart_are_no_group_of_their_own():
    # The first functions would tell outliers apart, and no class.
    points, ring = rings(1500, seed=0)
    far = torch.tensor([0.0, 0.0, 9.0]) + 0.01 * torch.randn(
        12, 3, generator=torch.Generator().manual_seed(2)
    )
    smooth = SmoothFunctions.over(torch.cat([points, far]), 8, 6, NeighbourSearch())
    assert (smooth.eigenvalues > 1 - 1e-9).sum() == 3
    groups = smooth.values[:1500, :3]
    means = torch.stack([groups[ring == each].mean(0) for each in range(3)])
    assert torch.allclose(groups, means[ring], atol=1e-6)
    # They hang on the upper ring, and have a little of its constant.
    assert smooth.values[1500:].abs().sum(1).min() > 0


def test_no_convergence_is_said_in_one_line(monkeypatch):
    # A run would end in the iteration's own words, which name nothing that one can set.
    def in_vain(*_, **__):
        raise ArpackNoConvergence("in vain", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr("labeldp_bench.models.embeddings.eigsh", in_vain)
    with pytest.raises(InputError, match=r"not found in time \(take more model.neighbours"):
        SmoothFunctions.over(rings(3600, seed=0)[0], 8, 12, NeighbourSearch())
