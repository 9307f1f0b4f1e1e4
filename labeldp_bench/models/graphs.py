"""Learning on a graph of neighbours: Laplace learning."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components, laplacian
from scipy.sparse.linalg import cg
from torch import Tensor

from labeldp.linear import held_out_rows
from labeldp.supervision import Supervision, vote_shares
from labeldp.support.validate import InputError, check_number, check_numbers
from labeldp_bench.interfaces import Session
from labeldp_bench.models.embeddings import GraphModel, NearestSearch, Places, joined_neighbours

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
        scaled = (laplacian(joined) / joined.sum(1).mean()).tocsr()
        return cls(places, neighbours, search, scaled, component)

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
        values: expected votes, float64 (n, K).
    """

    graph: NeighbourGraph
    values: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns the mean value among the neighbours, float64 (m, K)."""
        places = self.graph.places
        near = self.graph.search(places.points, places.of(features), self.graph.neighbours)
        return self.values[near.long()].mean(1)

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns vote shares to the power 1 / temperature, float64 (m, K), rows sum to 1."""
        return vote_shares(self.scores(features), temperature)


def per_example(indices: Tensor, values: Tensor, total: int) -> np.ndarray:
    """Returns the values of `indices` at their places, 0 elsewhere, float64 (total, K)."""
    everywhere = torch.zeros(total, values.shape[1], dtype=torch.float64)
    return everywhere.index_add_(0, indices, values.to(torch.float64)).numpy()


FEWEST = 2
"""Examples: one fits and one chooses."""


@dataclass(frozen=True)
class LaplaceLearning(GraphModel):
    """Finds values near what was released that differ little between neighbours.

    It minimises the squared distance to the votes plus penalty x sum over edges of the squared
    difference. Zhu et al. hold the values of labelled examples fixed; every label here is noise,
    so that they may move (Tikhonov regularisation, Belkin et al. 2004). The penalty is the one with
    the least squared error on held-out releases; then all releases are fitted. No true label is
    needed.

    Source: Zhu, Ghahramani, Lafferty (2003), "Semi-supervised learning using Gaussian fields and
    harmonic functions"; Belkin, Matveeva, Niyogi (2004), "Regularization and semi-supervised
    learning on large graphs".

    Args:
        network, neighbours, search, initial: as `GraphModel`.
        penalties: > 0, to choose from; of a graph whose mean degree is 1.
        held_out: share of the examples that choose, in (0, 1).
    """

    penalties: Sequence[float] = (1, 3, 10, 30, 100, 300, 1000, 3000)
    held_out: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("model.held_out", self.held_out, above=0, below=1)
        check_numbers("model.penalties", self.penalties, above=0)

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> GraphClassifier:
        """Returns the classifier by the smoothed votes."""
        graph = self._graph(features, session)
        votes, indices = supervision.votes().to(torch.float64), supervision.indices
        penalty = self._chosen(graph, indices, votes, session)
        session.notes["penalty"] = penalty
        values = torch.from_numpy(_smoothed(graph, indices, votes, penalty))
        return GraphClassifier(graph, values)

    def _graph(self, features: Tensor, session: Session) -> NeighbourGraph:
        """Returns the graph of the training examples, kept for the next cell."""

        def joined() -> NeighbourGraph:
            places, search = self.places(features, session), self._searches[self.search]
            return NeighbourGraph.over(places, self.neighbours, search)

        graph: NeighbourGraph = self._kept.get(("graph", features), joined)
        return graph

    def _chosen(
        self, graph: NeighbourGraph, indices: Tensor, votes: Tensor, session: Session
    ) -> float:
        """Returns the penalty with the least squared error on the releases held out."""
        if len(self.penalties) == 1 or len(indices) < FEWEST:
            return self.penalties[0]
        fits, chooses = held_out_rows(len(indices), self.held_out, session.seed)
        left_out = indices[chooses].numpy()

        def error(penalty: float) -> float:
            smoothed = _smoothed(graph, indices[fits], votes[fits], penalty)
            return float(np.square(smoothed[left_out] - votes[chooses].numpy()).sum())

        return min(self.penalties, key=error)


def _smoothed(graph: NeighbourGraph, indices: Tensor, votes: Tensor, penalty: float) -> np.ndarray:
    """Returns expected votes of all examples, float64 (n, K).

    Votes are measured from their mean, which is what an example far from all others gets.
    """
    mean = votes.mean(0)
    total = len(graph.component)
    mass = per_example(indices, torch.ones(len(indices), 1), total)[:, 0]
    # A component that released nothing would have no answer; a breath of mass gives it the mean.
    mass = np.where(np.bincount(graph.component, mass)[graph.component] > 0, mass, 1e-6)
    return graph.solve(mass, penalty, per_example(indices, votes - mean, total)) + mean.numpy()
