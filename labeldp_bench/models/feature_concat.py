"""Several networks' features side by side, of an image or of it and its mirror image."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from labeldp_bench.interfaces import NetworkFactory
from labeldp_bench.training.classifier import classifier_of


class FeatureConcat(nn.Module):
    """Hands an image to several networks, and what each has below its classifier to one of its own.

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image.
        networks: called with `num_classes` and `image_shape`.

    Attributes:
        widths: the number of features of each network.
    """

    def __init__(
        self, num_classes: int, image_shape: Sequence[int], networks: Sequence[NetworkFactory]
    ) -> None:
        super().__init__()
        self.widths: list[int] = []
        parts = []
        for network in networks:
            part = network(num_classes=num_classes, image_shape=image_shape)
            last = part.get_submodule(classifier_of(part))
            assert isinstance(last, nn.Linear)
            self.widths.append(last.in_features)
            part.set_submodule(classifier_of(part), nn.Identity())
            parts.append(part)
        self.parts = nn.ModuleList(parts)
        self.head = nn.Linear(sum(self.widths), num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        return self.head(torch.cat([part(images) for part in self.parts], 1))


class MirroredFeatureConcat(FeatureConcat):
    """Averages what `FeatureConcat` makes of an image and of its mirror image, left for right.

    Photographs of one class have it both ways; digits and letters do not.
    """

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        return (super().forward(images) + super().forward(images.flip(-1))) / 2
