"""What a file of a trained model holds, by form: a network, a linear layer, or neighbours."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labeldp_bench.models.cnn import CNN
from labeldp_bench.models.knn import NeighbourSearch
from labeldp_bench.models.patches import PatchNetwork
from labeldp_bench.supervision.prediction import VoteClassifier
from labeldp_bench.training.classifier import NetworkClassifier, classifier_of

NETWORKS: Mapping[str, type[nn.Module]] = {"CNN": CNN, "PatchNetwork": PatchNetwork}
"""The networks that a file may name."""
HALF = torch.float16
"""How weights lie on disk."""
STEPS = 127
"""Coordinates of points lie on disk as whole numbers from -127 to 127."""

Tensors = Mapping[str, Tensor]
Settings = Mapping[str, Any]


def network_of(settings: Settings, tensors: Tensors, *, encoder: bool) -> NetworkClassifier:
    """Returns the network with the weights `network.*`, in float32 on the CPU.

    Args:
        settings: `network` (class and parameters), `num_classes`, `image_shape`.
        tensors: of the file.
        encoder: whether it stands without its classifier.
    """
    parameters = dict(settings["network"])
    built = NETWORKS[parameters.pop("class")](
        num_classes=settings["num_classes"], image_shape=settings["image_shape"], **parameters
    )
    if encoder:
        built.set_submodule(classifier_of(built), nn.Identity())
    own = {name.removeprefix("network."): values.float() for name, values in tensors.items()
           if name.startswith("network.")}  # fmt: skip
    built.load_state_dict(own)
    return NetworkClassifier(built, tensors["pixel_mean"], tensors["pixel_stddev"], "float32")


@dataclass(frozen=True)
class StoredEncoder:
    """A frozen network, and the mean and deviation that standardise its outputs, (d,)."""

    network: NetworkClassifier
    mean: Tensor
    stddev: Tensor

    @classmethod
    def of(cls, settings: Settings, tensors: Tensors) -> "StoredEncoder":
        """Returns the encoder of a file."""
        network = network_of(settings, tensors, encoder=True)
        return cls(network, tensors["mean"], tensors["stddev"])

    def __call__(self, features: Tensor) -> Tensor:
        """Returns what the network makes of images, float32 (m, d)."""
        return (self.network.scores(features) - self.mean) / self.stddev


@dataclass(frozen=True)
class LinearScores(VoteClassifier):
    """Features times weights, (d, K), and what is added, (K,).

    Attributes:
        unit: whether each example's features are scaled to length 1.
    """

    encoder: StoredEncoder
    weights: Tensor
    bias: Tensor
    unit: bool

    @classmethod
    def of(cls, settings: Settings, tensors: Tensors) -> "LinearScores":
        """Returns the model of a file."""
        encoder = StoredEncoder.of(settings, tensors)
        return cls(encoder, tensors["weights"], tensors["bias"], bool(settings["unit"]))

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float32 (m, K)."""
        encoded = self.encoder(features)
        encoded = nn.functional.normalize(encoded) if self.unit else encoded
        return encoded @ self.weights + self.bias


@dataclass(frozen=True)
class NeighbourScores(VoteClassifier):
    """The mean score of the k training images that are nearest.

    This is what smooth functions (`model=eigenmaps`) say of an image that is not in the graph: each
    function there is the mean over the neighbours, divided by its eigenvalue, and the scores are
    linear in the functions. Here the points have fewer axes, and whole numbers for coordinates.

    Attributes:
        encoder: None: pixels.
        centre, axes: of the points, float32 (d,) and (d, p).
        points: of the training images, float32 (n, p).
        votes: the score of each training image, float32 (n, K).
        neighbours: k.
    """

    encoder: StoredEncoder | None
    pixels: Tensor
    centre: Tensor
    axes: Tensor
    points: Tensor
    votes: Tensor
    neighbours: int
    search: NeighbourSearch

    @classmethod
    def of(cls, settings: Settings, tensors: Tensors) -> "NeighbourScores":
        """Returns the model of a file."""
        encoder = StoredEncoder.of(settings, tensors) if "network" in settings else None
        return cls(
            encoder,
            tensors["pixels"],
            tensors["centre"],
            tensors["axes"].float(),
            tensors["points"].float() * tensors["step"],
            tensors["votes"].float(),
            int(settings["neighbours"]),
            NeighbourSearch(),
        )

    def scores(self, features: Tensor) -> Tensor:
        """Returns the votes that are to be expected, float32 (m, K)."""
        if self.encoder is not None:
            raw = self.encoder(features)
        else:
            raw = features.flatten(1).float() - self.pixels
        located = (nn.functional.normalize(raw) - self.centre) @ self.axes
        return self.votes[self.search(self.points, located, self.neighbours).long()].mean(1)
