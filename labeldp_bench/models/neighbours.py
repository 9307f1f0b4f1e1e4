"""Votes of neighbours: k nearest neighbours and cubes, and averages of groups."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor
from torch.nn import functional

from labeldp.supervision import Supervision, VoteClassifier
from labeldp.support.last_results import LastResults
from labeldp.support.progress import progress_bar
from labeldp.support.validate import InputError, check_integer, check_list, check_number
from labeldp_bench.interfaces import Model, Session


@dataclass(frozen=True)
class GroupEstimator(VoteClassifier):
    """Class sums or means, one for each group.

    Attributes:
        locate: features (m, ...) to the group of each example, int64 (m,) in [0, G).
        outputs: float64 (G, K) or (G,).
    """

    locate: Callable[[Tensor], Tensor]
    outputs: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Returns one score per class, float64 (m, K)."""
        return self.outputs[self.locate(features)]

    def values(self, features: Tensor) -> Tensor:
        """Returns the mean of each example's group, float64 (m,)."""
        return self.scores(features)


@dataclass(frozen=True)
class Groups:
    """The training examples in disjoint groups.

    Attributes:
        members: the group of each training example, int64 (N,) in [0, count).
        count: G.
        locate: features (m, ...) to the group of each example, int64 (m,).
        means: sums over groups, (G,) or (G, K), to what is known of each place that `locate`
            numbers; None: groups are the places.
    """

    members: Tensor
    count: int
    locate: Callable[[Tensor], Tensor]
    means: Callable[[Tensor], Tensor] | None = None

    def estimator(self, outputs: Tensor) -> GroupEstimator:
        """Returns the estimator that has one output per group, (G,) or (G, K)."""
        return GroupEstimator(self.locate, outputs if self.means is None else self.means(outputs))


class Averages(Protocol):
    """A model as groups of examples whose labels are averaged, sized for one problem."""

    disjoint: ClassVar[bool]
    """Whether groups are disjoint; neighbourhoods overlap."""
    fixed: ClassVar[bool]
    """Whether an example's group depends on its own features alone."""

    @property
    def notes(self) -> dict[str, object]:
        """The size of groups, for the record."""

    def grouping(self, features: Tensor, session: Session) -> Groups:
        """Returns the training examples in groups."""


@runtime_checkable
class GroupedModel(Protocol):
    """A model of groups, for learner=local_averages."""

    def averaging(self, side: float | None, num_examples: int, dimension: int) -> Averages:
        """Returns the model as groups of a given size.

        Args:
            side: of a cube, as a share of the box; None for the model's own size.
            num_examples: N.
            dimension: d.
        """


class GroupModel(Model):
    """Adds up what the examples of a group released, or answers about groups (`Averages`)."""

    shares_work: ClassVar[bool] = True
    disjoint: ClassVar[bool] = True

    @abstractmethod
    def grouping(self, features: Tensor, session: Session) -> Groups:
        """Returns the training examples in groups."""

    def fit(self, features: Tensor, supervision: Supervision, session: Session) -> GroupEstimator:
        """Returns the classifier that adds up the votes in each group."""
        groups = self.grouping(features, session)
        votes = supervision.votes().to(torch.float64)
        sums = torch.zeros((groups.count, votes.shape[1]), dtype=torch.float64)
        sums.index_add_(0, groups.members[supervision.indices], votes)
        return groups.estimator(sums)


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

    def grouping(self, features: Tensor, session: Session) -> Groups:
        """Returns groups from whose sums follow the means at the session's queries, of (N, d)."""
        queries = session.queries
        if queries is None:
            raise InputError("learner=local_averages with model=knn needs to know the test points")
        if features.flatten(1).shape[1] == 1:
            return self._windows(features.flatten(), queries)

        def means(outputs: Tensor) -> Tensor:
            neighbours = self.search(features, queries, self.k)
            return torch.cat([outputs[part].mean(1) for part in neighbours.split(1000)])

        return Groups(torch.arange(len(features)), len(features), _numbers_of(queries), means)

    def _windows(self, points: Tensor, queries: Tensor) -> Groups:
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
        return Groups(members, len(lengths), _numbers_of(queries), means)


def _numbers_of(queries: Tensor) -> Callable[[Tensor], Tensor]:
    def locate(features: Tensor) -> Tensor:
        if features is not queries and not torch.equal(features, queries):
            raise InputError("these means were computed for other points")
        return torch.arange(len(features))

    return locate


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


# Beyond this many dimensions a k-d tree visits most of its leaves; brute force is faster.
TREE_DIMENSIONS = 8
CHUNK = 1000
PRODUCTS = 2**28  # of points and queries at one time: a gigabyte, which 260,000 points fill
# Stages of a learner and held-out parts have searches of their own, rarely more than this.
KEPT_ANSWERS = 8


@dataclass(eq=False)
class _Neighbours:
    """The neighbours, int32 (m, k), of one question; whether each row rises."""

    indices: Tensor
    rises: bool = False


class NeighbourSearch:
    """Exact search that keeps its last answers, so that cells on the same points share them."""

    def __init__(self) -> None:
        self._last: LastResults[_Neighbours] = LastResults(KEPT_ANSWERS)

    def __call__(self, points: Tensor, queries: Tensor, k: int, rising: bool = True) -> Tensor:
        """Returns the k nearest points of each query, int32 (m, k).

        Up to 8 dimensions, points at the same distance in float64 count by rising index.

        Args:
            points: (n, ...), flattened to (n, d).
            queries: (m, ...), likewise.
            k: in [1, n].
            rising: whether the neighbours of a query come by rising index, as sums of floats need,
                which depend on their order; False leaves the order open.
        """

        def find() -> _Neighbours:
            flat_points, flat_queries = points.flatten(1), queries.flatten(1)
            if flat_points.shape[1] > TREE_DIMENSIONS:
                return _Neighbours(_brute_force(flat_points, flat_queries, k).to(torch.int32))
            near = tree_search(flat_points.double().numpy(), flat_queries.double().numpy(), k)
            return _Neighbours(torch.from_numpy(near.astype(np.int32, copy=False)))

        found = self._last.get((k, points, queries), find)
        if rising and not found.rises:
            found.indices = torch.from_numpy(np.sort(found.indices.numpy(), axis=1))
            found.rises = True
        return found.indices


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
    """Returns the k nearest points of each query, int64 (m, k); in no order.

    Of points at the same squared distance, computed in float64, the lower index comes first.
    """
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


MOST_CUBES = 2**22
KEPT = 8
"""Sets of located points: cells of one job differ in the size of their cubes."""


@dataclass(frozen=True)
class Cubes(GroupModel):
    """Cuts a box into `cells`^d cubes; points outside belong to the nearest cube.

    Source: Zhao et al. (2025), theoretical_limits, equations 14 and 15.

    Args:
        cells: cubes along each axis, >= 1.
        box: lowest and highest coordinate, the same for all axes; fixed without a look at data.
    """

    cells: int
    box: tuple[float, float] | list[float] = (0.0, 1.0)
    located: LastResults[Tensor] = field(
        default_factory=lambda: LastResults(KEPT), init=False, repr=False, compare=False
    )

    fixed: ClassVar[bool] = True  # a point's cube depends on its own coordinates alone

    def __post_init__(self) -> None:
        check_integer("model.cells", self.cells, low=1)
        check_list("model.box", self.box, "numbers, [low, high]", length=2)
        check_number("model.box", self.box[1], above=check_number("model.box", self.box[0]))

    def averaging(self, side: float | None, num_examples: int, dimension: int) -> "Cubes":
        """Returns the model with cubes of about this side, a share of the box, if one is given."""
        if side is None:
            return self
        largest = int(MOST_CUBES ** (1 / dimension))
        model = replace(self, cells=min(largest, max(1, round(1 / side))))
        object.__setattr__(model, "located", self.located)
        return model

    @property
    def notes(self) -> dict[str, Any]:
        """Returns the size, for the record."""
        return {"cells": self.cells}

    def locate(self, points: Tensor) -> Tensor:
        """Returns the number of each point's cube, int64 (N,) in [0, cells^d), at points (N, d)."""
        low, high = self.box
        flat = points.flatten(1).to(torch.float64)
        steps = ((flat - low) * (self.cells / (high - low))).long().clamp_(0, self.cells - 1)
        number = steps[:, 0]
        for axis in range(1, steps.shape[1]):
            number = number * self.cells + steps[:, axis]
        return number

    def grouping(self, features: Tensor, session: Session) -> Groups:
        """Returns the cube of each example."""
        count = self._num_cubes(features)
        return Groups(self._kept_locate(features), count, self._kept_locate)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of sums in a cube."""
        return "float64"

    def _kept_locate(self, points: Tensor) -> Tensor:
        """Returns what `locate` does; cells on the same points compute it once."""
        return self.located.get((self.cells, points), lambda: self.locate(points))

    def _num_cubes(self, features: Tensor) -> int:
        dimension = math.prod(features.shape[1:])
        if dimension * math.log(self.cells) > math.log(MOST_CUBES) + 1e-9:
            raise InputError(
                f"model.cells={self.cells} in {dimension} dimensions makes more than {MOST_CUBES} "
                "cubes (fewer cells, or model=knn)"
            )
        cubes = self.cells**dimension
        if cubes > max(1, len(features)):
            raise InputError(
                f"model.cells={self.cells} in {dimension} dimensions makes {cubes:,} cubes for "
                f"{len(features):,} examples, so that most are empty (fewer cells, or model=knn)"
            )
        low, high = self.box
        outside = ((features < low) | (features > high)).flatten(1).any(1).double().mean()
        if cubes > 1 and outside > 0.5:
            raise InputError(
                f"model.box=[{low:g},{high:g}] leaves {100 * outside:.0f} % of the points outside, "
                "in cubes at its edge (give model.box=[low,high] that holds them)"
            )
        return cubes
