"""One hidden layer on pixels."""

import math
from collections.abc import Sequence

from torch import Tensor, nn


class MLP(nn.Module):
    """Returns logits from one hidden layer on the pixels.

    Source: ours, an example.
    """

    def __init__(self, num_classes: int, image_shape: Sequence[int], hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(math.prod(image_shape), hidden), nn.ReLU())
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a float batch (B, C, H, W)."""
        return self.head(self.body(images.flatten(1)))
