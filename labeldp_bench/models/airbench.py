"""The network of airbench, narrow: few operations for its accuracy."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labeldp.support.validate import check_integer, check_list
from labeldp_bench.models.linear import check_classes_and_shape

SPEED = 8.0
"""Factor of a shift and of its gradient: it moves by its square, 64 times, as fast."""
MOMENTUM = 0.4
"""Weight of the newest batch in the running statistics."""
LOGIT_SCALE = 1 / 9


class Airbench(nn.Module):
    """Returns logits from fixed filters, three groups of two convolutions, and a global maximum.

    Source: Jordan (2024), arXiv:2404.00498, and its code: filters of 2 x 2 pixels that whiten and
    are not trained; convolutions that start as identities; normalisation without scales, whose
    shifts learn 64 times as fast; pooling between convolution and normalisation; logits times 1/9.
    Ours: the widths (there 64, 256, 256); SiLU in place of GELU, by which an epoch took 1.3 times
    as long on a CPU (a look); the stem's filters are the discrete cosine transform, normalised
    batch by batch (there the principal components of the training images).

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image, H and W >= 8.
        widths: channels of each group; each halves the size.

    >>> sum(p.numel() for p in Airbench(10, (28, 28, 1)).parameters())
    280504
    """

    def __init__(
        self, num_classes: int, image_shape: Sequence[int], widths: Sequence[int] = (24, 64, 128)
    ) -> None:
        super().__init__()
        _, _, channels = check_classes_and_shape(num_classes, image_shape)
        check_list("model.network.widths", widths, "numbers of channels", length=3)
        self.stem = _Stem(channels)
        groups = []
        before = self.stem.width
        for width in widths:
            groups.append(_Group(before, check_integer("model.network.widths", width, low=1)))
            before = width
        self.groups = nn.Sequential(*groups)
        self.head = nn.Linear(before, num_classes, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        # Not amax: its gradient finds the maximum by equality. Compiled in bf16 no value may equal
        # the rounded one, and the gradient is then 0 / 0.
        highest = self.groups(self.stem(images)).flatten(2).max(2).values
        return self.head(highest) * LOGIT_SCALE


class _Stem(nn.Module):
    """The cosine transform of every 2 x 2 pixels and its negative, of variance 1, rectified."""

    filters: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        across, sides = cosines(channels), cosines(2)
        filters = torch.einsum("ac,bh,dw->abdchw", across, sides, sides)
        self.register_buffer("filters", filters.reshape(-1, channels, 2, 2))
        self.norm = nn.BatchNorm2d(4 * channels, affine=False)
        self.width = 8 * channels
        self.shift = nn.Parameter(torch.zeros(self.width))

    def forward(self, images: Tensor) -> Tensor:
        """Returns (B, 8 C, H - 1, W - 1)."""
        white = self.norm(F.conv2d(images, self.filters))
        return F.silu(torch.cat([white, -white], 1) + self.shift[:, None, None])


class _Group(nn.Module):
    """Two convolutions, the first pooled, each normalised and rectified."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = _identity(before, after), _Shifted(after)
        self.conv2, self.norm2 = _identity(after, after), _Shifted(after)

    def forward(self, images: Tensor) -> Tensor:
        inner = self.conv1(images)
        one_pixel = min(inner.shape[2:]) < 2  # rounded up, a side of one pixel stays
        inner = F.silu(self.norm1(F.max_pool2d(inner, 2, ceil_mode=one_pixel)))
        return F.silu(self.norm2(self.conv2(inner)))


class _Shifted(nn.BatchNorm2d):
    """Batch normalisation without scales, whose shifts move SPEED squared times as fast."""

    scale: Tensor

    def __init__(self, width: int) -> None:
        super().__init__(width, momentum=MOMENTUM, affine=False)
        self.register_buffer("scale", torch.ones(width))  # a shift alone is no form of the kernel
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, images: Tensor) -> Tensor:
        return F.batch_norm(
            images, self.running_mean, self.running_var, self.scale, SPEED * self.shift,
            self.training, MOMENTUM, self.eps,
        )  # fmt: skip


def cosines(size: int) -> Tensor:
    """Returns the rows of the orthonormal discrete cosine transform (DCT-II), (size, size).

    >>> [[round(float(each), 2) for each in row] for row in cosines(2)]
    [[0.71, 0.71], [0.71, -0.71]]
    """
    steps = torch.arange(size, dtype=torch.float64)
    rows = torch.cos(torch.pi * steps[:, None] * (steps + 0.5) / size) * (2 / size) ** 0.5
    rows[0] /= 2**0.5
    return rows.float()


def _identity(before: int, after: int) -> nn.Conv2d:
    """Returns a 3 x 3 convolution whose first outputs are its inputs; torch's weights for more."""
    made = nn.Conv2d(before, after, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(made.weight[: min(before, after)])
    return made
