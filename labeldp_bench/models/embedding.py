"""Where examples lie: their graph and its smoothest functions, kept for many cells."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from labeldp.support.last_results import LastResults
from labeldp.support.validate import InputError, check_choice, check_integer
from labeldp_bench.interfaces import Session
from labeldp_bench.models.descent import DescentSearch
from labeldp_bench.models.encoder import Encoder
from labeldp_bench.models.knn import NeighbourSearch
from labeldp_bench.models.pretrainable import PretrainableModel
from labeldp_bench.models.smooth_functions import NearestSearch, SmoothFunctions
from labeldp_bench.training.classifier import IMAGE_AXES

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
        """Returns the points of examples, float32 (m, d)."""
        return located(features, self.encoder, self.mean)


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
        init=False, repr=False, compare=False,
    )  # fmt: skip

    shares_work: ClassVar[bool] = True  # the graph of all examples

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
            return Places(located(features, None, mean), None, mean)
        encoder, encoded = Encoder.pretrained(self.network, self.initial, features, session.device)
        return Places(nn.functional.normalize(encoded.cpu()), encoder, mean)


@dataclass(frozen=True)
class SmoothModel(GraphModel):
    """A model on the smoothest functions of the graph; cells on the same examples share them.

    Args:
        network, neighbours, initial: as `GraphModel`.
    """

    _last: LastResults[Embedding] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )

    def embedding(self, features: Tensor, count: int, session: Session) -> Embedding:
        """Returns the `count` smoothest functions over all examples.

        Args:
            features: of the training examples, (N, ...), N > neighbours.
            count: M >= 1.
            session: where the network runs.
        """
        return self._last.get((count, features), lambda: self._embedded(features, count, session))

    def _embedded(self, features: Tensor, count: int, session: Session) -> Embedding:
        if len(features) * count > LONG:
            session.say(f"  the {count} smoothest functions on {len(features):,} examples")
        places = self.places(features, session)
        smooth = SmoothFunctions.over(
            places.points, self.neighbours, count, self._searches[self.search]
        )
        return Embedding(smooth, places)


def located(features: Tensor, encoder: Encoder | None, mean: Tensor) -> Tensor:
    """Returns the points whose distances decide who is near, float32 (m, d).

    Points of images have length 1, so that distance is angle.
    """
    if encoder is not None:
        return nn.functional.normalize(encoder(features).cpu())
    points = features.flatten(1).to(torch.float32) - mean
    return nn.functional.normalize(points) if features.dim() == IMAGE_AXES else points
