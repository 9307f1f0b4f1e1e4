"""Groups of similar examples, found without a label; every group has one class."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn

from labeldp_bench.models.embedding import Embedding, Embeddings
from labeldp_bench.models.group_estimator import GroupEstimator
from labeldp_bench.supervision.interfaces import Classifier, Model, Session
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import InputError, check_integer, check_made
from labeldp_bench.training.classifier import NetworkFactory

ITERATIONS = 30


@dataclass(frozen=True)
class Partition:
    """The clusters of the training examples, and the way from any example to its own.

    Attributes:
        embedding: the functions.
        centres: of the clusters, in the functions' directions, float64 (C, M).
        members: the cluster of each training example, int64 (N,).
    """

    embedding: Embedding
    centres: Tensor
    members: Tensor

    def locate(self, features: Tensor) -> Tensor:
        """Returns the cluster of each example, int64 (m,) in [0, C)."""
        return nearest_centre(self.embedding.functions(features), self.centres)


@dataclass(frozen=True)
class Clusters(Model):
    """Cuts the examples into clusters by k-means on the smoothest functions (spectral clustering).

    A cluster adds up what its examples released, or is a group that a central mechanism answers
    about: thousands of labels stand behind each class, so that little noise is left at an eps of
    hundredths. No label is looked at before, so the clusters cost nothing; where one holds two
    classes, no eps tells them apart.

    Source: Ng, Jordan, Weiss (2002), "On spectral clustering"; clusters under label DP: Tang et al.
    (2022), NoiseCluster.

    Args:
        network: of `pretrain`; unused without one.
        neighbours: k of the graph, >= 1; see Eigenmaps.
        functions: how many smooth functions tell where an example lies, >= 1.
        clusters: how many, >= 1.
        initial: weights below the classifier, from `pretrain`.
    """

    network: NetworkFactory
    neighbours: int = 10
    functions: int = 20
    clusters: int = 30
    initial: Mapping[str, Tensor] | None = None
    embeddings: Embeddings = field(
        default_factory=Embeddings, init=False, repr=False, compare=False
    )
    _kept: list[tuple[Tensor, int, Partition]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    shares_work: ClassVar[bool] = True  # the graph of all examples
    disjoint: ClassVar[bool] = True
    fixed: ClassVar[bool] = False  # one moved example may change graph, functions and centres
    notes: ClassVar[dict[str, Any]] = {}  # each partition says how many clusters it has

    def __post_init__(self) -> None:
        check_made("model.network", self.network, see="model")
        for name in ("neighbours", "functions", "clusters"):
            check_integer(f"model.{name}", getattr(self, name), low=1)

    def averaging(self, side: float | None, num_examples: int, dimension: int) -> "Clusters":
        """Returns the model itself: clusters have no side that a rule could set."""
        return self

    def pretrained(
        self, weights_for: Callable[[NetworkFactory], Mapping[str, Tensor]]
    ) -> "Clusters":
        """Returns the model on features of the network with the weights returned for it."""
        return replace(self, initial=weights_for(self.network))

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of features; functions, clusters and sums have float64."""
        return "float32"

    def groups(self, features: Tensor, session: Session) -> tuple[Tensor, int]:
        """Returns the cluster of each example, int64 (N,), and the number of clusters."""
        partition = self._partition(features, session)
        return partition.members, len(partition.centres)

    def estimator(self, outputs: Tensor) -> GroupEstimator:
        """Returns the estimator that has one output per cluster of the last `groups`."""
        if outputs.dim() == 2:
            self._check_classes(outputs)
        return GroupEstimator(self._kept[0][2].locate, outputs)

    def fit(
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None = None,
    ) -> GroupEstimator:
        """Returns the classifier that adds up the votes in each cluster."""
        partition = self._partition(features, session)
        votes = supervision.votes().to(torch.float64)
        sums = torch.zeros((len(partition.centres), votes.shape[1]), dtype=torch.float64)
        self._check_classes(sums)
        sums.index_add_(0, partition.members[supervision.indices], votes)
        return GroupEstimator(partition.locate, sums)

    def _partition(self, features: Tensor, session: Session) -> Partition:
        """Returns the clusters of all examples, kept for the next cell."""
        if not self._kept or self._kept[0][0] is not features or self._kept[0][1] != session.seed:
            self._kept[:] = [(features, session.seed, self._made(features, session))]
        partition = self._kept[0][2]
        session.notes["clusters"] = len(partition.centres)
        return partition

    def _made(self, features: Tensor, session: Session) -> Partition:
        if self.clusters > len(features):
            raise InputError(
                f"model.clusters must be <= the number of training examples, got {self.clusters} "
                f"for {len(features)}"
            )
        embedding = self.embeddings.over(
            features, self.neighbours, self.functions, self.network, self.initial, session
        )
        functions = embedding.smooth.values
        centres = k_means(functions, self.clusters, session.seed)
        return Partition(embedding, centres, nearest_centre(functions, centres))

    def _check_classes(self, sums: Tensor) -> None:
        """Refuses fewer clusters than classes, (C, K): some class would never be predicted."""
        made, classes = sums.shape
        if made >= classes:
            return
        if made < self.clusters:
            raise InputError(
                f"model=clusters found only {made} distinct places for {classes} classes (take "
                "more model.functions; examples that are alike share a place)"
            )
        raise InputError(
            f"model.clusters must be >= the number of classes, got {made} for {classes} "
            "(three for each class, and two model.functions, are a good start)"
        )


def directions(functions: Tensor) -> Tensor:
    """Returns rows of length 1: only their direction tells clusters apart (Ng, Jordan, Weiss)."""
    return nn.functional.normalize(functions)


def k_means(functions: Tensor, count: int, seed: int) -> Tensor:
    """Returns the centres of `count` clusters, float64 (C, M); fewer where rows repeat.

    Args:
        functions: float64 (N, M).
        count: C in [1, N].
        seed: of the run; clusters are drawn from its stream "train".
    """
    rows = directions(functions).numpy()
    distinct = np.unique(rows, axis=0)
    if len(distinct) <= count:
        return torch.from_numpy(distinct)
    stream = np.random.default_rng(seeding.derive(seed, "train", "clusters"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster stays where it is
        centres, _ = kmeans2(rows, count, iter=ITERATIONS, minit="++", rng=stream)
    return torch.from_numpy(centres)


def nearest_centre(functions: Tensor, centres: Tensor) -> Tensor:
    """Returns the number of the nearest centre, int64 (m,), of functions (m, M)."""
    rows = directions(functions)
    return torch.cat([torch.cdist(part, centres).argmin(1) for part in rows.split(10_000)])
