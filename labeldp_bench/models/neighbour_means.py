"""Means over the k nearest neighbours, from sums of releases over few groups of examples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from labeldp_bench.supervision.interfaces import Session
from labeldp_bench.support.validate import InputError


@dataclass
class NeighbourMeans:
    """k nearest neighbours as a model of groups.

    On a line the k nearest examples are a window of the sorted ones. The ends of all windows cut
    the line into segments, and prefix sums over segments give every window: O(N + m log N) whatever
    k is. In more dimensions every example is a group of its own.

    Args:
        k: number of neighbours, in [1, N].
        search: of the model, for more than one dimension.
    """

    k: int
    search: Callable[[Tensor, Tensor, int], Tensor]
    _features: Tensor | None = None
    _queries: Tensor | None = None
    _first: Tensor | None = None
    _edges: Tensor | None = None

    disjoint: ClassVar[bool] = False
    """Neighbourhoods overlap: who answers once for each of them answers for an example often."""
    fixed: ClassVar[bool] = False

    @property
    def notes(self) -> dict[str, Any]:
        """Returns the size, for the record."""
        return {"k": self.k}

    def groups(self, features: Tensor, session: Session) -> tuple[Tensor, int]:
        """Returns the group of each example, int64 (N,), and the number of groups.

        Args:
            features: (N, d).
            session: has the points that will be asked for; public, as all features are.
        """
        queries = session.queries
        if queries is None:
            raise InputError("learner=local_averages with model=knn needs to know the test points")
        self._features, self._queries = features, queries
        self._first = self._edges = None
        if features.flatten(1).shape[1] > 1:
            return torch.arange(len(features)), len(features)
        points = features.flatten()
        if not bool((points[1:] >= points[:-1]).all()):
            raise InputError("in one dimension model=knn wants examples in increasing order")
        self._first = first_of_window(points, queries.flatten().to(points.dtype), self.k)
        ends = torch.tensor([0, len(points)])
        self._edges = torch.cat([self._first, self._first + self.k, ends]).unique()
        lengths = self._edges.diff()
        return torch.repeat_interleave(torch.arange(len(lengths)), lengths), len(lengths)

    def estimator(self, outputs: Tensor) -> "NeighbourMeansEstimator":
        """Returns the estimator, from the sums over the last groups, (G,) or (G, K)."""
        features, queries = self._features, self._queries
        assert features is not None and queries is not None, "groups come first"
        if self._first is None or self._edges is None:
            neighbours = self.search(features, queries, self.k)
            means = torch.cat([outputs[part].mean(1) for part in neighbours.split(1000)])
            return NeighbourMeansEstimator(queries, means)
        flat = outputs.reshape(len(outputs), -1)
        prefix = torch.cat([torch.zeros((1, flat.shape[1]), dtype=flat.dtype), flat.cumsum(0)])
        window = torch.stack([self._first, self._first + self.k])
        ends = torch.searchsorted(self._edges, window)
        means = (prefix[ends[1]] - prefix[ends[0]]) / self.k
        return NeighbourMeansEstimator(queries, means.reshape(len(queries), *outputs.shape[1:]))


@dataclass(frozen=True)
class NeighbourMeansEstimator:
    """Means at the points that were asked for."""

    queries: Tensor
    means: Tensor

    def values(self, features: Tensor) -> Tensor:
        """Returns the means, float64 (m,) or (m, K); `features` are those of the fit."""
        if features is not self.queries and not torch.equal(features, self.queries):
            raise InputError("these means were computed for other points")
        return self.means

    scores = values


def first_of_window(points: Tensor, queries: Tensor, k: int) -> Tensor:
    """Returns where the window of the k nearest points begins, int64 (m,).

    Args:
        points: float64 (N,), increasing.
        queries: float64 (m,).
        k: in [1, N].
    """
    low = torch.zeros(len(queries), dtype=torch.int64)
    high = torch.full_like(low, len(points) - k)
    for _ in range(len(points).bit_length()):
        middle = (low + high) // 2
        # The window moves right while its left end is farther than the point after its right end.
        after = points[(middle + k).clamp_max(len(points) - 1)]
        moves = (middle < high) & (queries - points[middle] > after - queries)
        low = torch.where(moves, middle + 1, low)
        high = torch.where(moves, high, torch.maximum(middle, low))
    return low
