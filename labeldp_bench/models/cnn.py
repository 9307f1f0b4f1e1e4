"""The small convolutional network of the digit-sized data sets."""

from collections.abc import Sequence

from torch import Tensor, nn

from labeldp.support.validate import InputError, check_integer, check_list, check_number
from labeldp_bench.models.linear import check_classes_and_shape


class CNN(nn.Module):
    """Returns logits from two convolution and pooling blocks and one hidden layer.

    Each block is a convolution that keeps the size, 2 x 2 max-pooling and ReLU: the same numbers as
    ReLU before pooling, with a quarter of its work. Dropout acts once, on the hidden layer.

    Source: Zhao et al. (2025), vector_approximation, section 5.2, which says only "two convolution
    and pooling layers with dropout rate 0.5". Kernel size, widths, hidden layer and the place of
    dropout are not stated: ours.

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image, H and W >= 8.
        kernel_size: odd, of both convolutions.
        widths: channels after the first and the second block.
        hidden: units of the fully connected layer.
        dropout: chance in [0, 1) that a hidden unit is dropped in training.

    >>> sum(p.numel() for p in CNN(10, (28, 28, 1)).parameters())
    421642
    """

    def __init__(
        self,
        num_classes: int,
        image_shape: Sequence[int],
        kernel_size: int = 3,
        widths: Sequence[int] = (32, 64),
        hidden: int = 128,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        height, width, channels = check_classes_and_shape(num_classes, image_shape)
        if check_integer("model.network.kernel_size", kernel_size, low=1) % 2 == 0:
            raise InputError(f"model.network.kernel_size must be odd, got {kernel_size}")
        check_list("model.network.widths", widths, "numbers of channels", length=2)
        first, second = (check_integer("model.network.widths", count, low=1) for count in widths)
        check_integer("model.network.hidden", hidden, low=1)
        check_number("model.network.dropout", dropout, low=0, below=1)

        padding = kernel_size // 2
        self.features = nn.Sequential(
            nn.Conv2d(channels, first, kernel_size, padding=padding),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(first, second, kernel_size, padding=padding),
            nn.MaxPool2d(2),
            nn.ReLU(),
        )
        self.head = nn.Sequential(
            nn.Linear(second * (height // 4) * (width // 4), hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        return self.head(self.features(images).flatten(1))
