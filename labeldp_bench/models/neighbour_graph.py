"""The graph of nearest neighbours, and linear systems on it."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components, laplacian
from scipy.sparse.linalg import cg
from torch import Tensor

from labeldp.supervision import vote_shares
from labeldp.support.validate import InputError
from labeldp_bench.models.embedding import Places
from labeldp_bench.models.smooth_functions import NearestSearch, joined_neighbours

PRECISION = 1e-5
"""Of a solution: the misfit that is left, as a share of the right side."""
STEPS = 5000


@dataclass(frozen=True)
class NeighbourGraph:
    """The training examples, each joined to its nearest ones.

    Attributes:
        places: of the examples.
        neighbours: k; a pair is joined where one is among the k nearest of the other.
        search: (points, queries, k) to the k nearest points of each query, int (m, k).
        laplacian: D - W over the mean degree, float64 (n, n), n the number of examples.
        component: of each example, int (n,), from 0 on.
    """

    places: Places
    neighbours: int
    search: NearestSearch
    laplacian: csr_matrix
    component: np.ndarray

    @classmethod
    def over(cls, places: Places, neighbours: int, search: NearestSearch) -> "NeighbourGraph":
        """Returns the graph of the training examples."""
        joined = joined_neighbours(places.points, neighbours, search)
        _, component = connected_components(joined, directed=False)
        return cls(
            places,
            neighbours,
            search,
            (laplacian(joined) / joined.sum(1).mean()).tocsr(),
            component,
        )

    def solve(self, mass: np.ndarray, stiffness: float, right: np.ndarray) -> np.ndarray:
        """Returns u with (diag(mass) + stiffness L) u = right, float64 (n, K).

        Args:
            mass: >= 0, (n,). Where it is 0 in a whole component, `right` must sum to 0 there.
            stiffness: > 0.
            right: (n, K).

        Raises:
            InputError: the graph is too badly connected for an answer in time.
        """
        matrix = (diags(mass) + stiffness * self.laplacian).tocsr()
        inverse = diags(1 / matrix.diagonal())
        found = np.zeros_like(right)
        for column in range(right.shape[1]):
            found[:, column], failed = cg(
                matrix, right[:, column], rtol=PRECISION, maxiter=STEPS, M=inverse
            )
            if failed:
                raise InputError(
                    f"the graph's linear system was not solved in {STEPS} steps (take more "
                    "model.neighbours, or a smaller penalty)"
                )
        return found


@dataclass(frozen=True)
class GraphClassifier:
    """Values of the training examples; a new example has the mean of its nearest ones'.

    Attributes:
        graph: of the training examples.
        values: that decide the class, float64 (n, K).
        votes: the same as expected votes, float64 (n, K).
    """

    graph: NeighbourGraph
    values: Tensor
    votes: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the mean value among the neighbours, float64 (m, K)."""
        return self.values[self._near(features)].mean(1)

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns vote shares to the power 1 / temperature, float64 (m, K), rows sum to 1."""
        return vote_shares(self.votes[self._near(features)].mean(1), temperature)

    def _near(self, features: Tensor) -> Tensor:
        places = self.graph.places
        return self.graph.search(places.points, places.of(features), self.graph.neighbours).long()


def per_example(indices: Tensor, values: Tensor, total: int) -> np.ndarray:
    """Returns the values of `indices` at their places, 0 elsewhere, float64 (total, K)."""
    everywhere = torch.zeros(total, values.shape[1], dtype=torch.float64)
    return everywhere.index_add_(0, indices, values.to(torch.float64)).numpy()
