"""Small networks for images: a linear one, CNNs, patches and airbench."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labeldp.support.validate import InputError, check_integer, check_list, check_number


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


FLAT = 0.0025
"""Added to the variance in a patch of standardised pixels: the 10 of Coates et al., whose CIFAR-10
has a variance of 4,000."""
VALUES_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}
"""Responses that are held at a time: more would leave the cache, or fill a GPU."""


class PatchNetwork(nn.Module):
    """Responses to fixed filters, split by sign and averaged over the cells of a coarse grid.

    Every patch is brought to mean 0 and one contrast before it meets a filter. Filters and offsets
    come from `pretrain=patches`; without it all responses are 0.

    Source: Coates, Ng, Lee (2011), "An analysis of single-layer networks in unsupervised feature
    learning"; random patches in place of clusters: Coates, Ng (2011), "The importance of encoding
    versus training with sparse coding and vector quantization".

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image.
        filters: F >= 1; there are 2 F cells^2 features.
        size: side of a patch in pixels, >= 2.
        cells: of the grid, down and across, >= 1.
        threshold: >= 0; smaller responses count as 0.
    """

    def __init__(
        self,
        num_classes: int,
        image_shape: Sequence[int],
        filters: int = 1024,
        size: int = 6,
        cells: int = 2,
        threshold: float = 0.25,
    ) -> None:
        super().__init__()
        self.size, self.cells, self.threshold = size, cells, threshold
        *_, channels = check_classes_and_shape(num_classes, image_shape, smallest=size + cells)
        self.register_buffer("filters", torch.zeros(filters, channels, size, size))
        self.register_buffer("offsets", torch.zeros(filters))
        self.head = nn.Linear(2 * filters * cells**2, num_classes)
        self.filters: Tensor
        self.offsets: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        places = (images.shape[2] - self.size + 1) * (images.shape[3] - self.size + 1)
        chunk = max(1, VALUES_AT_ONCE[images.device.type] // (places * len(self.filters)))
        # Small results that outlive large ones would leave holes in the memory.
        pooled = images.new_empty((len(images), 2 * len(self.filters) * self.cells**2))
        for start in range(0, len(images), chunk):
            pooled[start : start + chunk] = self._features(images[start : start + chunk])
        return self.head(pooled)

    def _features(self, images: Tensor) -> Tensor:
        """Returns the pooled responses, (B, 2 F cells^2)."""
        # The filters have mean 0, so that a patch need not be centred, only scaled.
        of_pixel = torch.stack([images.mean(1), images.square().mean(1)], 1)
        mean, square = F.avg_pool2d(of_pixel, self.size, stride=1).split(1, dim=1)
        contrast = ((square - mean.square()).clamp_min(0) + FLAT).sqrt()
        responses = F.conv2d(images, self.filters).div_(contrast)
        responses.sub_(self.offsets[:, None, None])
        # max(r - t, 0) is max(r, t) - t: what is constant is taken off where few numbers are left.
        above = F.adaptive_avg_pool2d(responses.clamp_min(self.threshold), self.cells)
        below = F.adaptive_avg_pool2d(responses.clamp_max_(-self.threshold), self.cells)
        return torch.cat([above.flatten(1), -below.flatten(1)], 1) - self.threshold


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
        statistics = self.running_mean, self.running_var, self.scale, SPEED * self.shift
        return F.batch_norm(images, *statistics, self.training, MOMENTUM, self.eps)


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
