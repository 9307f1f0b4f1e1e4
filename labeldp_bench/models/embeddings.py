"""Smooth functions over the features, by which eigenmaps and clusters see examples."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor, nn

from labeldp.support.last_results import LastResults
from labeldp.support.validate import InputError, check_choice, check_integer
from labeldp_bench.interfaces import Session
from labeldp_bench.models.encoders import Encoder, PretrainableModel
from labeldp_bench.models.neighbours import NeighbourSearch
from labeldp_bench.training.fit import IMAGE_AXES

DENSE_UP_TO = 1000
"""Points; the iteration for few eigenvectors of many needs more than it is asked for."""
SMOOTH = 0.5
"""Least eigenvalue: below, a function is told little by its mean over the neighbours."""
SMALL = 0.01
"""Share of the points from which on a component of the graph counts as a group."""

NearestSearch = Callable[[Tensor, Tensor, int], Tensor]


@dataclass(frozen=True)
class SmoothFunctions:
    """Leading eigenvectors of a random walk from point to neighbour: they change the slowest.

    The first is constant, or one in each component of the graph. The next ones tell groups of
    points apart between which few edges run. A new point gets the mean over its neighbours, divided
    by the eigenvalue (Nystrom): on the graph, the mean over the points that an edge joins is the
    eigenvalue times the function.

    Source: Belkin, Niyogi (2004), "Semi-supervised learning on Riemannian manifolds"; the
    extension: Bengio et al. (2004).

    Attributes:
        points: of the graph, float32 (n, d).
        values: float64 (n, M), mean square 1, the smoothest first.
        eigenvalues: float64 (M,), in (1/2, 1], falling.
        components: of the graph; as many functions have eigenvalue 1, and only together they tell
            something of every point.
        neighbours: k of the graph; a pair is joined where one is among the k nearest of the other.
        search: (points, queries, k) to the k nearest points of each query, int (m, k).
    """

    points: Tensor
    values: Tensor
    eigenvalues: Tensor
    components: int
    neighbours: int
    search: NearestSearch

    @classmethod
    def over(
        cls,
        points: Tensor,
        neighbours: int,
        count: int,
        search: NearestSearch,
    ) -> "SmoothFunctions":
        """Returns the `count` smoothest functions.

        They are fewer where there are not so many, and more where the graph has more components.

        Args:
            points: float32 (n, d), n > neighbours.
            neighbours: k >= 1.
            count: M >= 1.
            search: as the attribute.
        """
        joined = joined_neighbours(points, neighbours, search)
        degrees = np.asarray(joined.sum(1)).ravel()
        scale = diags(degrees**-0.5)
        walk = (scale @ joined @ scale).tocsr()  # similar to the walk, and symmetric
        # One component at a time: an iteration finds one of several equal eigenvalues.
        components, component = connected_components(joined, directed=False)
        members = [np.flatnonzero(component == each) for each in range(components)]
        found = [leading_eigenvectors(walk[part][:, part], count) for part in members]
        of_part = np.repeat(np.arange(components), [len(kept) for kept, _ in found])
        column = np.concatenate([np.arange(len(kept)) for kept, _ in found])
        eigenvalues = np.concatenate([kept for kept, _ in found])
        order = np.argsort(-eigenvalues, kind="stable")[: max(count, components)]
        order = order[eigenvalues[order] > SMOOTH]
        values = np.zeros((len(points), len(order)))
        for place, each in enumerate(order):
            part = of_part[each]
            values[members[part], place] = found[part][1][:, column[each]]
        values /= np.sqrt(degrees)[:, None]
        values /= np.sqrt(np.square(values).mean(0))
        kept = torch.from_numpy(eigenvalues[order])
        return cls(points, torch.from_numpy(values), kept, components, neighbours, search)

    def at(self, points: Tensor) -> Tensor:
        """Returns the functions at new points, float64 (m, M), from points (m, d)."""
        near = self.search(self.points, points, self.neighbours)
        return self.values[near.long()].mean(1) / self.eigenvalues


def joined_neighbours(points: Tensor, neighbours: int, search: NearestSearch) -> csr_matrix:
    """Returns the graph, symmetric, 1 for each edge, (n, n).

    A component of few points is joined to the others, point by nearest point: it would have smooth
    functions of its own, which tell next to nothing.
    """
    near = search(points, points, neighbours + 1)  # a point is its own nearest one
    joined = _graph(np.arange(len(points)), near.numpy(), len(points))
    _, component = connected_components(joined, directed=False)
    small = np.bincount(component)[component] < SMALL * len(points)
    if small.any() and not small.all():
        large = np.flatnonzero(~small)
        bridges = large[search(points[~small], points[small], 1).numpy()]
        joined = joined.maximum(_graph(np.flatnonzero(small), bridges, len(points)))
    return joined


def leading_eigenvectors(matrix: csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the largest eigenvalues, (m,), and their eigenvectors, (n, m), m <= count.

    Args:
        matrix: symmetric, (n, n).
        count: >= 1.
    """
    total = matrix.shape[0]
    if total <= DENSE_UP_TO:
        eigenvalues, vectors = np.linalg.eigh(matrix.toarray())
        return eigenvalues[-count:], vectors[:, -count:]
    start = np.random.default_rng(0).standard_normal(total)
    try:
        return eigsh(matrix, min(count, total // 4), which="LA", v0=start, tol=1e-6)
    except ArpackNoConvergence as error:
        raise InputError(
            f"the {count} smoothest functions of this graph were not found in time (take more "
            "model.neighbours, or fewer model.functions)"
        ) from error


def _graph(rows: np.ndarray, columns: np.ndarray, total: int) -> csr_matrix:
    """Returns the symmetric graph with an edge from each row to each of its columns, (r, k)."""
    pairs = np.repeat(rows, columns.shape[1]), columns.ravel()
    graph = csr_matrix((np.ones(columns.size), pairs), (total, total))
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph.maximum(graph.T)


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
        if queries is points:
            found = index.neighbor_graph[0][:, :k]
        else:
            found = index.query(queries.numpy(), k)[0]
        # Where fewer were found, -1 stands for the others: the first of them counts again.
        found = np.where(found < 0, found[:, :1], found)
        return torch.from_numpy(np.ascontiguousarray(found, dtype=np.int32))


LONG = 500_000
"""Values of all functions together that take longer than a person waits without a word."""


@dataclass(frozen=True)
class Places:
    """Where the training examples lie, and any other.

    Neighbours of an image are nearest by angle, in what the pre-trained network makes of images or,
    without one, in pixels less their mean; neighbours of a point, by distance.

    Attributes:
        points: of the training examples, float32 (n, d).
        encoder: of `pretrain`; None: pixels or points.
        mean: of the training examples, flattened; unused with an encoder.
    """

    points: Tensor
    encoder: Encoder | None
    mean: Tensor

    def of(self, features: Tensor) -> Tensor:
        """Returns the points of examples, float32 (m, d); those of images have length 1."""
        if self.encoder is not None:
            return nn.functional.normalize(self.encoder(features).cpu())
        points = features.flatten(1).to(torch.float32) - self.mean
        return nn.functional.normalize(points) if features.dim() == IMAGE_AXES else points


@dataclass(frozen=True)
class Embedding:
    """The functions over the training examples, and the way to them."""

    smooth: SmoothFunctions
    places: Places
    _last: LastResults[Tensor] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )

    def functions(self, features: Tensor) -> Tensor:
        """Returns the functions at each example, float64 (m, M), kept for the next cell."""
        return self._last.get((features,), lambda: self.smooth.at(self.places.of(features)))


@dataclass(frozen=True)
class GraphModel(PretrainableModel):
    """A model on the graph of nearest neighbours.

    Args:
        network: of `pretrain`; unused without one.
        neighbours: k of the graph, >= 1.
        search: `exact` compares all points, `descent` finds most neighbours of many more.
        initial: weights below the classifier, from `pretrain`.
    """

    neighbours: int = 10
    search: str = "exact"
    _searches: dict[str, NearestSearch] = field(
        default_factory=lambda: {"exact": NeighbourSearch(), "descent": DescentSearch()},
        init=False,
        repr=False,
        compare=False,
    )

    _kept: LastResults[Any] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )
    """What was derived from the graph of all examples, for the model's next cell."""

    shares_work: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("model.neighbours", self.neighbours, low=1)
        check_choice("model.search", self.search, self._searches)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of features; the functions and the fit have float64."""
        return "float32"

    def places(self, features: Tensor, session: Session) -> Places:
        """Returns where the training examples lie.

        Raises:
            InputError: no more of them than neighbours.
        """
        if len(features) <= self.neighbours:
            raise InputError(
                f"model.neighbours must be < the number of training examples, got "
                f"{self.neighbours} for {len(features)}"
            )
        mean = features.flatten(1).to(torch.float32).mean(0)
        if self.initial is None:
            places = Places(torch.empty(0), None, mean)
            return replace(places, points=places.of(features))
        encoder, encoded = Encoder.pretrained(self.network, self.initial, features, session.device)
        return Places(nn.functional.normalize(encoded.cpu()), encoder, mean)


@dataclass(frozen=True)
class SmoothModel(GraphModel):
    """A model on the smoothest functions of the graph; cells on the same examples share them.

    Args:
        network, neighbours, initial: as `GraphModel`.
    """

    def embedding(self, features: Tensor, count: int, session: Session) -> Embedding:
        """Returns the `count` smoothest functions over all examples.

        Args:
            features: of the training examples, (N, ...), N > neighbours.
            count: M >= 1.
            session: where the network runs.
        """

        def embedded() -> Embedding:
            if len(features) * count > LONG:
                session.say(f"  the {count} smoothest functions on {len(features):,} examples")
            places, search = self.places(features, session), self._searches[self.search]
            smooth = SmoothFunctions.over(places.points, self.neighbours, count, search)
            return Embedding(smooth, places)

        found: Embedding = self._kept.get(("functions", count, features), embedded)
        return found
