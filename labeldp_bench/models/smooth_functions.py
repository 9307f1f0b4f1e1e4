"""The smoothest functions on a graph of nearest neighbours."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor

from labeldp.support.validate import InputError

DENSE_UP_TO = 1000
"""Points; the iteration for few eigenvectors of many needs more than it is asked for."""
SMOOTH = 0.5
"""Least eigenvalue: below, a function is told little by its mean over the neighbours."""
SMALL = 0.01
"""Share of the points from which on a component of the graph counts as a group."""

NearestSearch = Callable[[Tensor, Tensor, int], Tensor]


@dataclass(frozen=True)
class SmoothFunctions:
    """Leading eigenvectors of a random walk from point to neighbour: they change the slowest.

    The first is constant, or one in each component of the graph. The next ones tell groups of
    points apart between which few edges run. A new point gets the mean over its neighbours, divided
    by the eigenvalue (Nystrom): on the graph, the mean over the points that an edge joins is the
    eigenvalue times the function.

    Source: Belkin, Niyogi (2004), "Semi-supervised learning on Riemannian manifolds"; the
    extension: Bengio et al. (2004).

    Attributes:
        points: of the graph, float32 (n, d).
        values: float64 (n, M), mean square 1, the smoothest first.
        eigenvalues: float64 (M,), in (1/2, 1], falling.
        components: of the graph; as many functions have eigenvalue 1, and only together they tell
            something of every point.
        neighbours: k of the graph; a pair is joined where one is among the k nearest of the other.
        search: (points, queries, k) to the k nearest points of each query, int (m, k).
    """

    points: Tensor
    values: Tensor
    eigenvalues: Tensor
    components: int
    neighbours: int
    search: NearestSearch

    @classmethod
    def over(
        cls,
        points: Tensor,
        neighbours: int,
        count: int,
        search: NearestSearch,
    ) -> "SmoothFunctions":
        """Returns the `count` smoothest functions.

        They are fewer where there are not so many, and more where the graph has more components.

        Args:
            points: float32 (n, d), n > neighbours.
            neighbours: k >= 1.
            count: M >= 1.
            search: as the attribute.
        """
        joined = joined_neighbours(points, neighbours, search)
        degrees = np.asarray(joined.sum(1)).ravel()
        scale = diags(degrees**-0.5)
        walk = (scale @ joined @ scale).tocsr()  # similar to the walk, and symmetric
        # One component at a time: an iteration finds one of several equal eigenvalues.
        components, component = connected_components(joined, directed=False)
        members = [np.flatnonzero(component == each) for each in range(components)]
        found = [leading_eigenvectors(walk[part][:, part], count) for part in members]
        of_part = np.repeat(np.arange(components), [len(kept) for kept, _ in found])
        column = np.concatenate([np.arange(len(kept)) for kept, _ in found])
        eigenvalues = np.concatenate([kept for kept, _ in found])
        order = np.argsort(-eigenvalues, kind="stable")[: max(count, components)]
        order = order[eigenvalues[order] > SMOOTH]
        values = np.zeros((len(points), len(order)))
        for place, each in enumerate(order):
            part = of_part[each]
            values[members[part], place] = found[part][1][:, column[each]]
        values /= np.sqrt(degrees)[:, None]
        values /= np.sqrt(np.square(values).mean(0))
        kept = torch.from_numpy(eigenvalues[order])
        return cls(points, torch.from_numpy(values), kept, components, neighbours, search)

    def at(self, points: Tensor) -> Tensor:
        """Returns the functions at new points, float64 (m, M), from points (m, d)."""
        near = self.search(self.points, points, self.neighbours)
        return self.values[near.long()].mean(1) / self.eigenvalues


def joined_neighbours(points: Tensor, neighbours: int, search: NearestSearch) -> csr_matrix:
    """Returns the graph, symmetric, 1 for each edge, (n, n).

    A component of few points is joined to the others, point by nearest point: it would have smooth
    functions of its own, which tell next to nothing.
    """
    near = search(points, points, neighbours + 1)  # a point is its own nearest one
    joined = _graph(np.arange(len(points)), near.numpy(), len(points))
    _, component = connected_components(joined, directed=False)
    small = np.bincount(component)[component] < SMALL * len(points)
    if small.any() and not small.all():
        large = np.flatnonzero(~small)
        bridges = large[search(points[~small], points[small], 1).numpy()]
        joined = joined.maximum(_graph(np.flatnonzero(small), bridges, len(points)))
    return joined


def leading_eigenvectors(matrix: csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the largest eigenvalues, (m,), and their eigenvectors, (n, m), m <= count.

    Args:
        matrix: symmetric, (n, n).
        count: >= 1.
    """
    total = matrix.shape[0]
    if total <= DENSE_UP_TO:
        eigenvalues, vectors = np.linalg.eigh(matrix.toarray())
        return eigenvalues[-count:], vectors[:, -count:]
    start = np.random.default_rng(0).standard_normal(total)
    try:
        return eigsh(matrix, min(count, total // 4), which="LA", v0=start, tol=1e-6)
    except ArpackNoConvergence as error:
        raise InputError(
            f"the {count} smoothest functions of this graph were not found in time (take more "
            "model.neighbours, or fewer model.functions)"
        ) from error


def _graph(rows: np.ndarray, columns: np.ndarray, total: int) -> csr_matrix:
    """Returns the symmetric graph with an edge from each row to each of its columns, (r, k)."""
    pairs = np.repeat(rows, columns.shape[1]), columns.ravel()
    graph = csr_matrix((np.ones(columns.size), pairs), (total, total))
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph.maximum(graph.T)
