"""k nearest neighbours: every neighbour adds what it released."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor
from torch.nn import functional

from labeldp.supervision import Supervision, VoteClassifier
from labeldp.support.last_results import LastResults
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_integer
from labeldp_bench.interfaces import Model, Session
from labeldp_bench.models.neighbour_means import NeighbourMeans
from labeldp_bench.support.process import remembering_ctrl_c

# Beyond this many dimensions a k-d tree visits most of its leaves; brute force is faster.
TREE_DIMENSIONS = 8
CHUNK = 1000
PRODUCTS = 2**28  # of points and queries at one time: a gigabyte, which 260,000 points fill
# Limits of coordinates and of their ranges: squares neither overflow nor vanish.
LARGEST, SMALLEST = 1e150, 1e-140
# Fits from which the compiled search pays. Loading it takes a second and compiling it ten, once per
# machine; it saves 20 ms of each fit.
COMPILED_FROM = 200
# Stages of a learner and held-out parts have searches of their own, rarely more than this.
KEPT_ANSWERS = 8

Search = Callable[[NDArray[np.float64], NDArray[np.float64], int], NDArray[Any]]


@dataclass(eq=False)
class _Neighbours:
    """The neighbours, int32 (m, k), of one question; whether each row rises."""

    indices: Tensor
    rises: bool = False


class NeighbourSearch:
    """Exact search that keeps its last answers, so that cells on the same points share them."""

    def __init__(self) -> None:
        self._last: LastResults[_Neighbours] = LastResults(KEPT_ANSWERS)
        self._compiled: Search | None = None

    def __call__(self, points: Tensor, queries: Tensor, k: int, rising: bool = True) -> Tensor:
        """Returns the k nearest points of each query, int32 (m, k).

        Up to 8 dimensions, points at the same distance in float64 count by rising index, so that
        the tree and the compiled search find the same ones.

        Args:
            points: (n, ...), flattened to (n, d).
            queries: (m, ...), likewise.
            k: in [1, n].
            rising: whether the neighbours of a query come by rising index, as sums of floats need,
                which depend on their order; False leaves the order open.
        """
        found = self._last.get(
            (k, points, queries), lambda: _Neighbours(self._find(points, queries, k))
        )
        if rising and not found.rises:
            found.indices = torch.from_numpy(np.sort(found.indices.numpy(), axis=1))
            found.rises = True
        return found.indices

    def _find(self, points: Tensor, queries: Tensor, k: int) -> Tensor:
        flat_points, flat_queries = points.flatten(1), queries.flatten(1)
        dimensions = flat_points.shape[1]
        if dimensions > TREE_DIMENSIONS:
            return _brute_force(flat_points, flat_queries, k).to(torch.int32)
        near: Search = tree_search  # refuses points that are not finite
        if self._compiled is not None and dimensions == 2 and _moderate(flat_points, flat_queries):
            near = self._compiled
        found = near(flat_points.double().numpy(), flat_queries.double().numpy(), k)
        return torch.from_numpy(found.astype(np.int32, copy=False))

    @property
    def path(self) -> str:
        """What answers for points in the plane: `compiled` or `tree`."""
        return "tree" if self._compiled is None else "compiled"

    def compile(self, say: Callable[[str], None]) -> None:
        """Takes the compiled search for points in the plane, if numba is there."""
        told = threading.Timer(5, say, ["  compiling the neighbour search, once per machine"])
        told.start()
        try:
            with remembering_ctrl_c():
                from labeldp_bench.models.grid_search import nearest

                nearest(np.zeros((1, 2)), np.zeros((1, 2)), 1)
            self._compiled = nearest
        except ModuleNotFoundError:
            say("  pip install 'labeldp_bench[fast]' makes the neighbour search faster")
        except (ImportError, RuntimeError) as error:  # versions that do not fit, no cache folder
            say(f"  the neighbour search is not compiled: {error}")
        finally:
            told.cancel()


@dataclass(frozen=True)
class NearestNeighbours(Model):
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

    def averaging(self, side: float | None, num_examples: int, dimension: int) -> NeighbourMeans:
        """Returns means over the share side^d of the examples, or over k where there is no side."""
        if side is None:
            return NeighbourMeans(self._checked(num_examples), self.search)
        k = round(num_examples * side**dimension)
        return NeighbourMeans(min(max(1, k), num_examples), self.search)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of the features; the search itself runs in float64 in a tree."""
        return "float32"

    def prepare(self, fits: int, say: Callable[[str], None]) -> None:
        """Compiles the search if there are many fits."""
        if fits >= COMPILED_FROM:
            self.search.compile(say)

    def fit(
        self, features: Tensor, supervision: Supervision, session: Session
    ) -> "NeighbourClassifier":
        """Returns a classifier that remembers the supervised examples."""
        self._checked(len(supervision.indices))
        indices, votes = supervision.indices, supervision.targets
        if votes.dim() > 1:  # one-dimensional targets are labels, which are counted directly
            votes = supervision.votes()
        if (indices.diff() < 0).any():  # several stages: by rising index, as in a single one
            order = indices.argsort()
            indices, votes = indices[order], votes[order]
        # The same tensor for all cells on the same points, so that they share one search.
        whole = torch.equal(indices, torch.arange(len(features)))
        points = features if whole else features[indices]
        return NeighbourClassifier(points, votes, supervision.num_classes, self.k, self.search)

    def _checked(self, num_examples: int) -> int:
        """Returns k if there are as many examples."""
        if self.k > num_examples:
            raise InputError(
                f"model.k must be <= the number of training examples, got {self.k} "
                f"for {num_examples}"
            )
        return self.k


@dataclass(frozen=True)
class NeighbourClassifier(VoteClassifier):
    """The fitted k nearest neighbours.

    Attributes:
        points: (n, ...), the training examples.
        votes: float32 (n, K), or int64 (n,): one vote for that label.
        num_classes: K.
        k: how many neighbours vote.
        search: finds them.
    """

    points: Tensor
    votes: Tensor
    num_classes: int
    k: int
    search: NeighbourSearch

    def scores(self, features: Tensor) -> Tensor:
        """Returns summed votes, float32 (m, K)."""
        sums = self.votes.dim() > 1
        neighbours = self.search(self.points, features, self.k, rising=sums)
        if sums:
            return functional.embedding_bag(neighbours, self.votes, mode="sum")
        labels = self.votes.index_select(0, neighbours.flatten()).view(neighbours.shape)
        counts = torch.zeros((len(labels), self.num_classes))
        return counts.scatter_add_(1, labels, torch.ones(1).expand(labels.shape))


def tree_search(
    points: NDArray[np.float64], queries: NDArray[np.float64], k: int
) -> NDArray[np.int64]:
    """Returns the k nearest points of each query, int64 (m, k); see `grid_search.nearest`."""
    if k == len(points):
        return np.tile(np.arange(k), (len(queries), 1))
    # One neighbour more shows whether the last place is contested.
    distances, neighbours = map(
        np.asarray, cKDTree(points).query(queries, k=k + 1, workers=torch.get_num_threads())
    )
    found = neighbours[:, :k]
    for row in np.flatnonzero(distances[:, k] <= distances[:, k - 1] * (1 + 1e-12)):
        squares = np.square(points - queries[row]).sum(1)
        found[row] = squares.argsort(kind="stable")[:k]
    return found


def _brute_force(points: Tensor, queries: Tensor, k: int) -> Tensor:
    points = points.to(torch.float32)
    half_norms = points.square().sum(1) / 2
    size = max(1, min(CHUNK, PRODUCTS // max(1, len(points))))
    chunks = queries.split(size)
    near = torch.empty((len(queries), k), dtype=torch.int64, device=points.device)
    # One block for all chunks: freed ones of this size, with an answer kept between two of them,
    # are not joined again, and 60,000 points took 13 GB.
    block = points.new_empty((min(size, len(queries)), len(points)))
    bar = progress_bar(chunks, len(chunks), "neighbours", len(chunks) > 5)
    for chunk, found in zip(bar, near.split(size), strict=True):
        closeness = torch.mm(chunk.to(torch.float32), points.T, out=block[: len(chunk)])
        found.copy_(closeness.sub_(half_norms).topk(k, sorted=False).indices)
    return near


def _moderate(points: Tensor, queries: Tensor) -> bool:
    """Returns whether the compiled search, which checks nothing, can tell distances apart."""
    if len(queries) == 0:  # no smallest and largest coordinate
        return False
    # Column by column is several times as fast. A NaN fails every comparison.
    ends = [tuple(map(float, column.aminmax())) for column in (*points.T, *queries.T)]
    finite = all(-LARGEST < low <= high < LARGEST for low, high in ends)
    spans = [high - low for low, high in ends[: points.shape[1]]]
    return finite and all(span == 0 or span > SMALLEST for span in spans)
