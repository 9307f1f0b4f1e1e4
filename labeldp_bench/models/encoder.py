"""A pre-trained network that stays as it is: what it makes of an image."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labeldp_bench.training.classifier import NetworkClassifier, adopt, classifier_of
from labeldp_bench.training.pixels import pixel_scale


@dataclass(frozen=True)
class Encoder:
    """A frozen network whose outputs are standardised over the training examples."""

    network: NetworkClassifier
    mean: Tensor
    stddev: Tensor

    @classmethod
    def pretrained(
        cls,
        network: Callable[..., nn.Module],
        weights: Mapping[str, Tensor],
        features: Tensor,
        device: torch.device,
    ) -> "Encoder":
        """Returns the encoder with `weights` below the classifier of a new network, in float32.

        Args:
            network: as NetworkModel's.
            weights: from `pretrain`.
            features: the training images, uint8 (N, H, W, C).
            device: where it computes.
        """
        built = network(num_classes=2, image_shape=tuple(features.shape[1:]))
        adopt(built, weights)
        built.set_submodule(classifier_of(built), nn.Identity())
        built = built.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        scale = pixel_scale("standardised", features, device)
        return cls.fitted_to(NetworkClassifier(built, *scale, "float32"), features)

    @classmethod
    def fitted_to(cls, network: NetworkClassifier, features: Tensor) -> "Encoder":
        """Returns the encoder with mean and standard deviation of its outputs on `features`."""
        outputs = network.scores(features)
        stddev = outputs.std(0, correction=min(1, len(outputs) - 1))  # of one example 0
        return cls(network, outputs.mean(0), stddev.clamp_min(1e-6))

    def __call__(self, features: Tensor) -> Tensor:
        """Returns what the network makes of images, float32 (m, d), on the network's device."""
        outputs = (self.network.scores(features) - self.mean) / self.stddev
        return outputs.to(self.network.device)
