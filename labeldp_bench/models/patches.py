"""Features without a trained network: how much an image has of each of many random patches."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labeldp.support.validate import check_integer, check_number
from labeldp_bench.models.linear import check_classes_and_shape

FLAT = 0.0025
"""Added to the variance in a patch of standardised pixels: the 10 of Coates et al., whose CIFAR-10
has a variance of 4,000."""
VALUES_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}
"""Responses that are held at a time: more would leave the cache, or fill a card."""


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
        check_integer("pretrain.filters", filters, low=1)
        self.size = check_integer("pretrain.size", size, low=2)
        self.cells = check_integer("pretrain.cells", cells, low=1)
        self.threshold = check_number("pretrain.threshold", threshold, low=0)
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
