"""The small Inception network of digit-sized images."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from labeldp_bench.models.linear import check_classes_and_shape

STEM = 96
STAGES = (
    (((32, 32), (32, 48)), 160),
    (((112, 48), (96, 64), (80, 80), (48, 96)), 240),
    (((176, 160), (176, 160)), None),
)
"""Of each stage the channels of its blocks, by 1 x 1 and by 3 x 3, and of the convolution that then
halves the size; None: the last stage."""


class Inception(nn.Module):
    """Returns logits from eight Inception blocks in three stages, and a global maximum.

    Every convolution is followed by batch normalisation and ReLU, and has no bias of its own.

    Source: Ghazi et al. (2021), arXiv:2102.06062, supplement B, after Zhang et al. (2017),
    arXiv:1611.03530, who halve the size by a convolution and a maximum side by side, to the same
    widths. First weights: torch's, ours.

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image, H and W >= 8.

    >>> sum(p.numel() for p in Inception(10, (28, 28, 1)).parameters())
    1894058
    """

    def __init__(self, num_classes: int, image_shape: Sequence[int]) -> None:
        super().__init__()
        _, _, channels = check_classes_and_shape(num_classes, image_shape)
        layers: list[nn.Module] = [_convolution(channels, STEM)]
        width = STEM
        for blocks, smaller in STAGES:
            for by_1, by_3 in blocks:
                layers.append(_Block(width, by_1, by_3))
                width = by_1 + by_3
            if smaller is not None:
                layers.append(_convolution(width, smaller, stride=2))
                width = smaller
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a float batch (B, C, H, W)."""
        # Not amax: see Airbench.
        return self.head(self.features(images).flatten(2).max(2).values)


class _Block(nn.Module):
    """A 1 x 1 and a 3 x 3 convolution side by side."""

    def __init__(self, width: int, by_1: int, by_3: int) -> None:
        super().__init__()
        self.by_1 = _convolution(width, by_1, size=1)
        self.by_3 = _convolution(width, by_3)

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([self.by_1(images), self.by_3(images)], 1)


def _convolution(before: int, after: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )
