"""Means over the k nearest neighbours, from sums of releases over few groups of examples."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Session
from labeldp_bench.models.groups import GroupEstimator


@dataclass(frozen=True)
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

    disjoint: ClassVar[bool] = False
    """Neighbourhoods overlap: who answers once for each of them answers for an example often."""
    fixed: ClassVar[bool] = False

    @property
    def notes(self) -> dict[str, Any]:
        """The size, for the record."""
        return {"k": self.k}

    def grouping(self, features: Tensor, session: Session) -> "Neighbourhoods":
        """Returns the groups of examples (N, d); the session has the points to be asked for."""
        queries = session.queries
        if queries is None:
            raise InputError("learner=local_averages with model=knn needs to know the test points")
        if features.flatten(1).shape[1] == 1:
            return self._windows(features.flatten(), queries)

        def means(outputs: Tensor) -> Tensor:
            neighbours = self.search(features, queries, self.k)
            return torch.cat([outputs[part].mean(1) for part in neighbours.split(1000)])

        count = len(features)
        return Neighbourhoods(torch.arange(count), count, queries, means)

    def _windows(self, points: Tensor, queries: Tensor) -> "Neighbourhoods":
        """Returns the segments of the line, (N,), from which every window is put together."""
        if not bool((points[1:] >= points[:-1]).all()):
            raise InputError("in one dimension model=knn wants examples in increasing order")
        first = first_of_window(points, queries.flatten().to(points.dtype), self.k)
        edges = torch.cat([first, first + self.k, torch.tensor([0, len(points)])]).unique()

        def means(outputs: Tensor) -> Tensor:
            flat = outputs.reshape(len(outputs), -1)
            prefix = torch.cat([torch.zeros((1, flat.shape[1]), dtype=flat.dtype), flat.cumsum(0)])
            start, end = torch.searchsorted(edges, torch.stack([first, first + self.k]))
            of_window = (prefix[end] - prefix[start]) / self.k
            return of_window.reshape(len(queries), *outputs.shape[1:])

        lengths = edges.diff()
        members = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        return Neighbourhoods(members, len(lengths), queries, means)


@dataclass(frozen=True)
class Neighbourhoods:
    """Groups of examples from whose sums every neighbourhood's mean follows.

    Attributes:
        members: the group of each training example, int64 (N,) in [0, count).
        count: G.
        queries: the m points whose neighbourhoods are known.
        means: sums over groups, (G,) or (G, K), to the mean at each query, (m,) or (m, K).
    """

    members: Tensor
    count: int
    queries: Tensor
    means: Callable[[Tensor], Tensor]

    def estimator(self, outputs: Tensor) -> GroupEstimator:
        """Returns the estimator at the queries, from the sums over groups, (G,) or (G, K)."""
        return GroupEstimator(self._query_numbers, self.means(outputs))

    def _query_numbers(self, features: Tensor) -> Tensor:
        if features is not self.queries and not torch.equal(features, self.queries):
            raise InputError("these means were computed for other points")
        return torch.arange(len(features))


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
