"""Approximate nearest neighbours by descent on a graph, for more points than can be compared."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeldp.support.last_results import LastResults
from labeldp.support.validate import InputError

KEPT_INDEXES = 2
STEP = 16
"""Graphs are built for multiples of it, so that questions for 10 and for 11 share one."""


class DescentSearch:
    """Finds most of the nearest points: the neighbours of my neighbours are likely mine.

    Time grows little faster than the number of points, where an exact search compares all pairs.
    The same points give the same answer. Needs the package `pynndescent`.

    Source: Dong, Charikar, Li (2011), "Efficient k-nearest neighbor graph construction for generic
    similarity measures".
    """

    def __init__(self) -> None:
        self._indexes: LastResults[Any] = LastResults(KEPT_INDEXES)

    def __call__(self, points: Tensor, queries: Tensor, k: int) -> Tensor:
        """Returns k near points of each query, int32 (m, k).

        Args:
            points: float32 (n, d).
            queries: (m, d); the points themselves are answered from the graph.
            k: in [1, n].

        Raises:
            InputError: `pynndescent` is not installed.
        """
        try:
            from pynndescent import NNDescent
        except ModuleNotFoundError:
            raise InputError(
                "model.search=descent needs pynndescent (pip install 'labeldp-bench[graphs]')"
            ) from None
        size = min(-(-k // STEP) * STEP, len(points))
        index = self._indexes.get(
            (size, points), lambda: NNDescent(points.numpy(), n_neighbors=size, random_state=0)
        )
        found = index.neighbor_graph[0][:, :k] if queries is points else (
            index.query(queries.numpy(), k)[0])  # fmt: skip
        # Where fewer were found, -1 stands for the others: the first of them counts again.
        found = np.where(found < 0, found[:, :1], found)
        return torch.from_numpy(np.ascontiguousarray(found, dtype=np.int32))
