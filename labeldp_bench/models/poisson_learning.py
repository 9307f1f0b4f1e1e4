"""Votes as sources and sinks of heat on the graph of neighbours."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from labeldp.supervision import Supervision
from labeldp.support.last_results import LastResults
from labeldp_bench.interfaces import Session
from labeldp_bench.models.embedding import GraphModel
from labeldp_bench.models.neighbour_graph import GraphClassifier, NeighbourGraph, per_example

LEAK = 1e-5
"""Share of the heat that each example loses: a component of the graph with more sources than sinks
of a class would grow without a bound."""


@dataclass(frozen=True)
class PoissonLearning(GraphModel):
    """Solves L u = votes less their mean: each release is a source at its example.

    Made for very few labels, where `LaplaceLearning` is constant but for spikes. It has nothing to
    choose. The class is that of the largest u. Probabilities are ours: votes, fitted by their mean
    plus a multiple of u.

    Source: Calder, Cook, Thorpe, Slepcev (2020), "Poisson learning: graph based semi-supervised
    learning at very low label rates", ICML, eq. 2.5; on releases, ours.

    Args:
        network, neighbours, initial: as `GraphModel`.
    """

    _last: LastResults[NeighbourGraph] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> GraphClassifier:
        """Returns the classifier by the heat of each class."""
        graph = self._last.get(
            (features,),
            lambda: NeighbourGraph.over(
                self.places(features, session), self.neighbours, self._searches[self.search]
            ),
        )
        votes, indices = supervision.votes().to(torch.float64), supervision.indices
        centred = votes - votes.mean(0)
        sources = per_example(indices, centred, len(graph.component))
        heat = torch.from_numpy(graph.solve(np.full(len(sources), LEAK), 1.0, sources))
        own = heat[indices]
        scale = (own * centred).sum() / own.square().sum().clamp_min(1e-30)
        return GraphClassifier(graph, heat, votes.mean(0) + scale * heat)
