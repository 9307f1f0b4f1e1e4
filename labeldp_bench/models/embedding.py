"""Where examples lie: the smoothest functions over the public features, kept for many cells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from labeldp_bench.models.encoder import Encoder
from labeldp_bench.models.knn import NeighbourSearch
from labeldp_bench.models.smooth_functions import SmoothFunctions
from labeldp_bench.supervision.interfaces import Session
from labeldp_bench.support.validate import InputError

LONG = 500_000
"""Values of all functions together that take longer than a person waits without a word."""
IMAGES = 4
"""Axes of (N, H, W, C)."""


@dataclass(frozen=True)
class Embedding:
    """Where images lie: the functions over the training examples, and the way to them."""

    smooth: SmoothFunctions
    encoder: Encoder | None
    mean: Tensor
    _last: list[tuple[Tensor, Tensor]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def functions(self, features: Tensor) -> Tensor:
        """Returns the functions at each example, float64 (m, M), kept for the next cell."""
        if not self._last or self._last[0][0] is not features:
            values = self.smooth.at(located(features, self.encoder, self.mean))
            self._last[:] = [(features, values)]
        return self._last[0][1]


class Embeddings:
    """Makes an embedding and remembers the last one: cells on the same examples share it.

    Neighbours of an image are nearest by angle, in what the pre-trained network makes of images or,
    without one, in pixels less their mean; neighbours of a point, by distance.
    """

    def __init__(self) -> None:
        self.search = NeighbourSearch()
        self._kept: tuple[Tensor, Embedding] | None = None

    def over(
        self,
        features: Tensor,
        neighbours: int,
        count: int,
        network: Callable[..., nn.Module],
        initial: Mapping[str, Tensor] | None,
        session: Session,
    ) -> Embedding:
        """Returns the `count` smoothest functions over all examples.

        Args:
            features: of the training examples, (N, ...).
            neighbours: k of the graph, in [1, N).
            count: M >= 1; the same in every call.
            network: of `pretrain`.
            initial: its weights; None takes features as they are.
            session: where the network runs.
        """
        if self._kept is not None and self._kept[0] is features:
            return self._kept[1]
        if len(features) <= neighbours:
            raise InputError(
                f"model.neighbours must be < the number of training examples, got "
                f"{neighbours} for {len(features)}"
            )
        encoder = None
        if initial is not None:
            encoder = Encoder.pretrained(network, initial, features, session.device)
        mean = features.flatten(1).to(torch.float32).mean(0)
        points = located(features, encoder, mean)
        if len(features) * count > LONG:
            session.say(f"  the {count} smoothest functions on {len(features):,} examples")
        smooth = SmoothFunctions.over(points, neighbours, count, self.search)
        embedding = Embedding(smooth, encoder, mean)
        self._kept = (features, embedding)
        return embedding


def located(features: Tensor, encoder: Encoder | None, mean: Tensor) -> Tensor:
    """Returns what neighbours are told by, float32 (m, d): of images unit vectors."""
    if encoder is not None:
        return nn.functional.normalize(encoder(features).cpu())
    points = features.flatten(1).to(torch.float32) - mean
    return nn.functional.normalize(points) if features.dim() == IMAGES else points
