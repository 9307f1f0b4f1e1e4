"""k nearest neighbours: every neighbour adds what it released."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch.nn import functional

from labeldp_bench.learners.base import Classifier, Session, Supervision
from labeldp_bench.validate import InputError, check_integer

# Beyond this many dimensions a k-d tree visits most of its leaves; brute force is faster.
TREE_DIMENSIONS = 8
CHUNK = 1000


class NeighbourSearch:
    """Exact search that keeps its last answer, so that cells on the same points share it."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, Tensor, int, Tensor] | None = None

    def __call__(self, points: Tensor, queries: Tensor, k: int) -> Tensor:
        """Returns the k nearest points of each query, int64 (m, k), in no particular order.

        Args:
            points: (n, ...), flattened to (n, d).
            queries: (m, ...), likewise.
            k: in [1, n].
        """
        if self._last is not None:
            last_points, last_queries, last_k, answer = self._last
            if last_points is points and last_queries is queries and last_k == k:
                return answer
        flat_points, flat_queries = points.flatten(1), queries.flatten(1)
        near = _tree if flat_points.shape[1] <= TREE_DIMENSIONS else _brute_force
        answer = near(flat_points, flat_queries, k)
        self._last = (points, queries, k, answer)
        return answer


@dataclass(frozen=True)
class NearestNeighbours:
    """Scores a class by the votes of the k nearest training examples.

    Source: Zhao et al. (2025), section 5.1 and appendix C.

    Args:
        k: number of neighbours, >= 1, at most the number of training examples.
    """

    k: int
    search: NeighbourSearch = field(
        default_factory=NeighbourSearch, init=False, repr=False, compare=False
    )

    shares_work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integer("model.k", self.k, low=1)

    def resolved_precision(self, device: torch.device) -> str:
        """Returns the precision of the features; the search itself runs in float64 in a tree."""
        return "float32"

    def fit(
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None = None,
    ) -> "NeighbourClassifier":
        """Returns a classifier that remembers the supervised examples."""
        if self.k > len(supervision.indices):
            raise InputError(
                f"model.k must be <= the number of training examples, "
                f"got {self.k} for {len(supervision.indices)}"
            )
        # The same tensor for all cells on the same points, so that they share one search.
        whole = torch.equal(supervision.indices, torch.arange(len(features)))
        points = features if whole else features[supervision.indices]
        return NeighbourClassifier(points, supervision.votes(), self.k, self.search)


@dataclass(frozen=True)
class NeighbourClassifier:
    """The fitted k nearest neighbours."""

    points: Tensor
    votes: Tensor
    k: int
    search: NeighbourSearch

    def scores(self, features: Tensor) -> Tensor:
        """Returns summed votes, float32 (m, K)."""
        neighbours = self.search(self.points, features, self.k)
        return functional.embedding_bag(neighbours, self.votes, mode="sum")

    def probabilities(self, features: Tensor, temperature: float = 1.0) -> Tensor:
        """Returns vote shares to the power 1 / temperature, float64 (m, K), rows sum to 1."""
        # Votes of unbiased estimates may be negative.
        votes = self.scores(features).to(torch.float64).clamp_min(0) ** (1 / temperature)
        total = votes.sum(1, keepdim=True)
        return torch.where(total > 0, votes / total, 1 / votes.shape[1])


def _tree(points: Tensor, queries: Tensor, k: int) -> Tensor:
    tree = cKDTree(points.numpy())
    _, neighbours = tree.query(queries.numpy(), k=k, workers=torch.get_num_threads())
    return torch.as_tensor(neighbours).reshape(len(queries), k)


def _brute_force(points: Tensor, queries: Tensor, k: int) -> Tensor:
    points = points.to(torch.float32)
    half_norms = points.square().sum(1) / 2
    return torch.cat(
        [
            (chunk.to(torch.float32) @ points.T - half_norms).topk(k, sorted=False).indices
            for chunk in queries.split(CHUNK)
        ]
    )
