"""Groups of similar examples, found without a label; every group has one class."""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn

from labeldp.support import seeding
from labeldp.support.last_results import LastResults
from labeldp.support.validate import InputError, check_integer
from labeldp_bench.interfaces import Session
from labeldp_bench.models.embeddings import SmoothModel
from labeldp_bench.models.neighbours import GroupEstimator, GroupModel, Groups

ITERATIONS = 30


@dataclass(frozen=True)
class Clusters(SmoothModel, GroupModel):
    """Cuts the examples into clusters by k-means on the smoothest functions (spectral clustering).

    A cluster adds up what its examples released, or is a group that a central mechanism answers
    about: thousands of labels stand behind each class, so that little noise is left at an eps of
    hundredths. No label is looked at before, so the clusters cost nothing; where one holds two
    classes, no eps tells them apart.

    Source: Ng, Jordan, Weiss (2002), "On spectral clustering"; clusters under label DP: Tang et al.
    (2022), NoiseCluster.

    Args:
        network, neighbours, search, initial: as `SmoothModel`.
        functions: how many smooth functions tell where an example lies, >= 1.
        clusters: how many, >= 1.
    """

    functions: int = 20
    clusters: int = 30
    _last_clusters: LastResults["ClusterGroups"] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )

    fixed: ClassVar[bool] = False  # one moved example may change graph, functions and centres
    notes: ClassVar[dict[str, Any]] = {}  # each grouping says how many clusters it has

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("model.functions", self.functions, low=1)
        check_integer("model.clusters", self.clusters, low=1)

    def averaging(self, side: float | None, num_examples: int, dimension: int) -> "Clusters":
        """Returns the model itself: clusters have no side that a rule could set."""
        return self

    def grouping(self, features: Tensor, session: Session) -> "ClusterGroups":
        """Returns the clusters of all examples, kept for the next cell."""
        groups = self._last_clusters.get(
            (session.seed, features), lambda: self._made(features, session)
        )
        session.notes["clusters"] = groups.count
        return groups

    def _made(self, features: Tensor, session: Session) -> "ClusterGroups":
        if self.clusters > len(features):
            raise InputError(
                f"model.clusters must be <= the number of training examples, got {self.clusters} "
                f"for {len(features)}"
            )
        embedding = self.embedding(features, self.functions, session)
        functions = embedding.smooth.values
        centres = k_means(functions, self.clusters, session.seed)
        members = nearest_centre(functions, centres)

        def locate(features: Tensor) -> Tensor:
            return nearest_centre(embedding.functions(features), centres)

        return ClusterGroups(members, len(centres), locate, asked=self.clusters)


@dataclass(frozen=True)
class ClusterGroups(Groups):
    """The training examples in clusters; `asked`: how many clusters were wanted."""

    asked: int = field(kw_only=True)

    def estimator(self, outputs: Tensor) -> GroupEstimator:
        """Returns the estimator; refuses fewer clusters than classes: one would never be met."""
        classes = outputs.shape[1] if outputs.dim() == 2 else 1
        if self.count < min(classes, self.asked):
            raise InputError(
                f"model=clusters found only {self.count} distinct places for {classes} classes "
                "(take more model.functions; examples that are alike share a place)"
            )
        if self.count < classes:
            raise InputError(
                f"model.clusters must be >= the number of classes, got {self.count} for {classes} "
                "(three for each class, and two model.functions, are a good start)"
            )
        return super().estimator(outputs)


def k_means(functions: Tensor, count: int, seed: int) -> Tensor:
    """Returns the centres of `count` clusters, float64 (C, M); fewer where rows repeat.

    Args:
        functions: float64 (N, M).
        count: C in [1, N].
        seed: of the run; clusters are drawn from its stream "train".
    """
    # Only the direction of a row tells clusters apart (Ng, Jordan, Weiss).
    rows = nn.functional.normalize(functions).numpy()
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
    rows = nn.functional.normalize(functions)
    return torch.cat([torch.cdist(part, centres).argmin(1) for part in rows.split(10_000)])
