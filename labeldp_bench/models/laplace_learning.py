"""Votes smoothed over the graph of neighbours, as much as held-out releases ask for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from labeldp.linear import held_out_rows
from labeldp.supervision import Supervision
from labeldp.support.last_results import LastResults
from labeldp.support.validate import check_number, check_numbers
from labeldp_bench.interfaces import Session
from labeldp_bench.models.embedding import GraphModel
from labeldp_bench.models.neighbour_graph import GraphClassifier, NeighbourGraph, per_example

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
        network, neighbours, initial: as `GraphModel`.
        penalties: > 0, to choose from; of a graph whose mean degree is 1.
        held_out: share of the examples that choose, in (0, 1).
    """

    penalties: Sequence[float] = (1, 3, 10, 30, 100, 300, 1000, 3000)
    held_out: float = 0.2
    _last: LastResults[NeighbourGraph] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("model.held_out", self.held_out, above=0, below=1)
        check_numbers("model.penalties", self.penalties, above=0)

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> GraphClassifier:
        """Returns the classifier by the smoothed votes."""
        graph = self._last.get((features,), lambda: self._graph(features, session))
        votes, indices = supervision.votes().to(torch.float64), supervision.indices
        penalty = self._chosen(graph, indices, votes, session)
        session.notes["penalty"] = penalty
        values = torch.from_numpy(_smoothed(graph, indices, votes, penalty))
        return GraphClassifier(graph, values, values)

    def _graph(self, features: Tensor, session: Session) -> NeighbourGraph:
        return NeighbourGraph.over(
            self.places(features, session), self.neighbours, self._searches[self.search]
        )

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
