"""Softmax regression on pixels: the smallest network, and the check of what all networks take."""

from collections.abc import Sequence

from torch import Tensor, nn

from labeldp.support.validate import InputError, check_integer


class LinearClassifier(nn.Module):
    """Returns logits that are linear in the pixels (softmax regression).

    Source: ours; a convex baseline that shows what a network adds.

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image.

    >>> sum(p.numel() for p in LinearClassifier(10, (28, 28, 1)).parameters())
    7850
    """

    def __init__(self, num_classes: int, image_shape: Sequence[int]) -> None:
        super().__init__()
        height, width, channels = check_classes_and_shape(num_classes, image_shape, smallest=1)
        self.head = nn.Linear(height * width * channels, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a float batch (B, C, H, W)."""
        return self.head(images.flatten(1))


def check_classes_and_shape(
    num_classes: int, image_shape: Sequence[int], smallest: int = 8
) -> tuple[int, int, int]:
    """Returns `image_shape` as (H, W, C).

    Raises:
        InputError: fewer than two classes; not three integers, fewer than `smallest` rows or
            columns, or no channel.
    """
    check_integer("num_classes", num_classes, low=2)
    shape = tuple(image_shape)
    if len(shape) != 3:
        raise InputError(f"image_shape must be (height, width, channels), got {shape}")
    height, width, channels = shape
    check_integer("image height", height, low=smallest)
    check_integer("image width", width, low=smallest)
    check_integer("image channels", channels, low=1)
    return height, width, channels
