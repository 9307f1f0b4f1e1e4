"""A pre-trained network that stays as it is: what it makes of an image."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from labeldp.support.last_results import LastResults
from labeldp_bench.interfaces import NetworkFactory
from labeldp_bench.models.feature_concat import FeatureConcat
from labeldp_bench.training.classifier import (
    INFERENCE_BATCH,
    NetworkClassifier,
    adopt,
    classifier_of,
)
from labeldp_bench.training.pixels import pixel_scale

FEATURES_AT_ONCE = 1024


@dataclass(frozen=True)
class Encoder:
    """A frozen network whose outputs are standardised over the training examples.

    Networks side by side have the same say: together, the features of each have the same variance.
    """

    network: NetworkClassifier
    mean: Tensor
    stddev: Tensor
    _last: LastResults[Tensor] = field(
        default_factory=LastResults, init=False, repr=False, compare=False
    )

    @classmethod
    def pretrained(
        cls,
        network: NetworkFactory,
        weights: Mapping[str, Tensor],
        features: Tensor,
        device: torch.device,
    ) -> "tuple[Encoder, Tensor]":
        """Returns the encoder with `weights` below the classifier of a new network, in float32.

        Args:
            network: as NetworkModel's.
            weights: from `pretrain`.
            features: the training images, uint8 (N, H, W, C).
            device: where it computes.

        Returns:
            The encoder, and what it makes of the training images, float32 (N, d), on `device`.
        """
        built = network(num_classes=2, image_shape=tuple(features.shape[1:]))
        adopt(built, weights)
        built.set_submodule(classifier_of(built), nn.Identity())
        built = built.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        scale = pixel_scale("standardised", features, device)
        return cls.fitted_to(NetworkClassifier(built, *scale, "float32"), features)

    @classmethod
    def fitted_to(cls, network: NetworkClassifier, features: Tensor) -> "tuple[Encoder, Tensor]":
        """Returns the encoder with mean and standard deviation of its outputs, and these.

        Args:
            network: without a classifier.
            features: of the training examples.
        """
        outputs = network.scores(features)
        free = min(1, len(outputs) - 1)  # of one example the deviation is 0
        # Some features at a time: torch works on a copy, in float64.
        parts = [part.std(0, correction=free) for part in outputs.split(FEATURES_AT_ONCE, dim=1)]
        stddev = torch.cat(parts).clamp_min(1e-6)
        if isinstance(network.network, FeatureConcat):
            widths = network.network.widths
            share = sum(widths) / len(widths)
            factors = [math.sqrt(share / width) for width in widths]
            stddev = stddev / torch.repeat_interleave(torch.tensor(factors), torch.tensor(widths))
        encoder = cls(network, outputs.mean(0), stddev)
        return encoder, encoder._standardised(outputs)

    def __call__(self, features: Tensor) -> Tensor:
        """Returns what the network makes of images, float32 (m, d), on the network's device.

        Kept for the next cell; must not be changed.
        """
        return self._last.get(
            (features,), lambda: self._standardised(self.network.scores(features))
        )

    def _standardised(self, outputs: Tensor) -> Tensor:
        # In place, a part at a time: thousands of features for each image fill the memory.
        for part in outputs.split(INFERENCE_BATCH):
            part.sub_(self.mean).div_(self.stddev)
        return outputs.to(self.network.device)
