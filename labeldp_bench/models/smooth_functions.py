"""The smoothest functions on a graph of nearest neighbours."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import eigsh
from torch import Tensor

DENSE_UP_TO = 1000
"""Points; the iteration for few eigenvectors of many needs more than it is asked for."""
SMOOTH = 0.5
"""Least eigenvalue: below, a function is told little by its mean over the neighbours."""


@dataclass(frozen=True)
class SmoothFunctions:
    """Leading eigenvectors of a random walk from point to neighbour: they change the slowest.

    The first is constant. The next ones tell groups of points apart between which few edges run.
    A point from outside gets its neighbours' mean over the eigenvalue (Nystrom), which on the graph
    itself would give the eigenvector back.

    Source: Belkin, Niyogi (2004), "Semi-supervised learning on Riemannian manifolds"; the
    extension: Bengio et al. (2004).

    Attributes:
        points: of the graph, float32 (n, d).
        values: float64 (n, M), mean square 1, the smoothest first.
        eigenvalues: float64 (M,), in (1/2, 1], falling.
        neighbours: k of the graph; a pair is joined where one is among the k nearest of the other.
        search: (points, queries, k) to the k nearest points of each query, int (m, k).
    """

    points: Tensor
    values: Tensor
    eigenvalues: Tensor
    neighbours: int
    search: Callable[[Tensor, Tensor, int], Tensor]

    @classmethod
    def over(
        cls,
        points: Tensor,
        neighbours: int,
        count: int,
        search: Callable[[Tensor, Tensor, int], Tensor],
    ) -> "SmoothFunctions":
        """Returns the `count` smoothest functions, fewer where there are not so many.

        Args:
            points: float32 (n, d), n > neighbours.
            neighbours: k >= 1.
            count: M >= 1.
            search: as the attribute.
        """
        total = len(points)
        found = search(points, points, neighbours + 1)  # a point is its own nearest one
        rows = np.repeat(np.arange(total), neighbours + 1)
        joined = csr_matrix((np.ones(rows.size), (rows, found.flatten().numpy())), (total, total))
        joined = joined.maximum(joined.T)
        joined.setdiag(0)
        degrees = np.asarray(joined.sum(1)).ravel()
        scale = diags(degrees**-0.5)
        walk = scale @ joined @ scale  # similar to the walk, and symmetric
        if total <= DENSE_UP_TO or count > total // 4:
            eigenvalues, vectors = np.linalg.eigh(walk.toarray())
        else:
            start = np.random.default_rng(0).standard_normal(total)
            eigenvalues, vectors = eigsh(walk, count, which="LA", v0=start, tol=1e-6)
        order = np.argsort(-eigenvalues)[:count]
        order = order[eigenvalues[order] > SMOOTH]
        values = torch.from_numpy(vectors[:, order] / np.sqrt(degrees)[:, None])
        values /= values.square().mean(0).sqrt()
        return cls(points, values, torch.from_numpy(eigenvalues[order]), neighbours, search)

    def at(self, points: Tensor) -> Tensor:
        """Returns the functions at new points, float64 (m, M), from points (m, d)."""
        near = self.search(self.points, points, self.neighbours)
        return self.values[near.long()].mean(1) / self.eigenvalues
