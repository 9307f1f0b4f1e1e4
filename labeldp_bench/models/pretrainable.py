"""What all models with a network share: its factory, and the weights that it starts from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from labeldp.support.validate import check_made
from labeldp_bench.interfaces import Model, NetworkFactory, WeightsFor
from labeldp_bench.training.classifier import NetworkClassifier, adopt
from labeldp_bench.training.pixels import Pixels, pixel_scale


@dataclass(frozen=True)
class PretrainableModel(Model):
    """A model with a network whose first weights may come from `pretrain`.

    Args:
        network: called with `num_classes` and `image_shape` (H, W, C).
        initial: weights and statistics that a fresh network starts from, by name. What is not
            named, such as the classifier, starts at random. None: everything does.
    """

    network: NetworkFactory
    initial: Mapping[str, Tensor] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_made("model.network", self.network, see="model")

    def pretrained(self, weights_for: WeightsFor) -> Self:
        """Returns the model with a network that starts from the weights returned for it."""
        network, weights = weights_for(self.network)
        return replace(self, network=network, initial=weights)

    def untrained(
        self,
        features: Tensor,
        num_classes: int,
        device: torch.device,
        *,
        pixels: Pixels,
        precision: str,
    ) -> NetworkClassifier:
        """Returns a fresh network; first weights come from torch's global stream, or `initial`.

        Args:
            features: images, (N, H, W, C), whose pixels it is scaled to.
            num_classes: K.
            device: where it is put.
            pixels: as a trainer's.
            precision: `bf16` or `float32`.
        """
        network = self.network(num_classes=num_classes, image_shape=tuple(features.shape[1:]))
        if self.initial is not None:
            adopt(network, self.initial)
        network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return NetworkClassifier(network, *pixel_scale(pixels, features, device), precision)
