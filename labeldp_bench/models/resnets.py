"""Residual networks for CIFAR: ResNet-18 and wide residual networks."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from labeldp.support.validate import InputError, check_integer, check_list, check_number
from labeldp_bench.models.convolutional import check_classes_and_shape


class ResNet(nn.Module):
    """Returns logits from a 3 x 3 stem without pooling, stages of residual blocks, global average.

    The first stage keeps the size, every later one halves it and doubles the channels.

    Source: He et al. (2016), arXiv:1512.03385 (`preactivation=False`) and arXiv:1603.05027
    (`preactivation=True`); 18 layers and width 64 are ResNet-18. Zhao et al. (2025) say only
    "ResNet-18" and quote the non-private accuracy of the CIFAR form. Ghazi et al. (2021),
    arXiv:2102.06062, and Liu & Ding (BlockRR, whose paper cites the first form) take the second,
    read from their code: nothing between stem and first block, no BatchNorm on a shortcut,
    BatchNorm and ReLU before the average. We deviate from the code of Ghazi et al. in two places:
    strided convolutions are padded on both sides (Flax: on the far side only), and weights start
    from the normal distribution of `start_weights` (Flax: variance 1 / fan-in, truncated).

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image, H and W >= 8.
        width: channels of the first stage.
        blocks: residual blocks of each stage; two convolutions each.
        preactivation: whether BatchNorm and ReLU come before each convolution.

    >>> sum(p.numel() for p in ResNet(10, (32, 32, 3), width=4).parameters())
    44622
    """

    def __init__(
        self,
        num_classes: int,
        image_shape: Sequence[int],
        width: int = 64,
        blocks: Sequence[int] = (2, 2, 2, 2),
        preactivation: bool = False,
    ) -> None:
        super().__init__()
        check_integer("model.network.width", width, low=1)
        _, _, channels = check_classes_and_shape(num_classes, image_shape)
        if not check_list("model.network.blocks", blocks, "numbers of blocks, one per stage"):
            raise InputError("model.network.blocks must name at least one stage, got []")

        block = PreactivationBlock if preactivation else Block
        stem = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        ready = [] if preactivation else [nn.BatchNorm2d(width), nn.ReLU()]
        self.stem = nn.Sequential(stem, *ready)
        stages: list[nn.Module] = []
        before = width
        for stage, count in enumerate(blocks):
            after = width * 2**stage
            for index in range(check_integer("model.network.blocks", count, low=1)):
                stages.append(block(before, after, stride=2 if stage > 0 and index == 0 else 1))
                before = after
        self.blocks = nn.Sequential(*stages)
        last = [nn.BatchNorm2d(before), nn.ReLU()] if preactivation else []
        self.last = nn.Sequential(*last)
        self.head = nn.Linear(before, num_classes)
        start_weights(self)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        return self.head(self.last(self.blocks(self.stem(images))).mean((2, 3)))


class Block(nn.Module):
    """Two convolutions, each with BatchNorm; ReLU between them and after the sum."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            projection = Projection(before, after, stride)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(after))

    def forward(self, images: Tensor) -> Tensor:
        """Returns the block's feature maps."""
        inner = F.relu(self.norm1(self.conv1(images)))
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(images))


class PreactivationBlock(nn.Module):
    """BatchNorm and ReLU before each of two convolutions; a projection sees the activated input.

    Args:
        before: channels that come in.
        after: channels that go out.
        stride: of the first convolution and the projection.
        negative_slope: of the rectifier below zero; 0 is ReLU.
        momentum: weight of the newest batch in BatchNorm's running statistics.
        raw: whether the first convolution and the projection see the input as it is.
    """

    def __init__(
        self,
        before: int,
        after: int,
        stride: int,
        negative_slope: float = 0.0,
        momentum: float = 0.1,
        raw: bool = False,
    ) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.norm1 = None if raw else nn.BatchNorm2d(before, momentum=momentum)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after, momentum=momentum)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.projection = None
        if stride != 1 or before != after:
            self.projection = Projection(before, after, stride)

    def forward(self, images: Tensor) -> Tensor:
        """Returns the block's feature maps."""
        active = images if self.norm1 is None else self._rectify(self.norm1(images))
        inner = self._rectify(self.norm2(self.conv1(active)))
        shortcut = images if self.projection is None else self.projection(active)
        return self.conv2(inner) + shortcut

    def _rectify(self, values: Tensor) -> Tensor:
        # Not one leaky_relu for both: torch's ReLU needs only its output for the gradient.
        return F.leaky_relu(values, self.negative_slope) if self.negative_slope else F.relu(values)


class Projection(nn.Conv2d):
    """A 1 x 1 convolution of every `stride`-th pixel, without bias: the shortcut of a block.

    Args:
        before: channels that come in.
        after: channels that go out.
        stride: step between the pixels that are kept, in both directions.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        # Pixels of fewer than 8 channels are picked before the convolution: the backward pass of
        # its strided form ends the process on CPUs without AVX-512 (torch 2.13, channels_last,
        # float32). Wider ones leave it to the convolution, which is faster.
        self.step = stride if before < 8 else 1
        super().__init__(before, after, 1, stride // self.step, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Returns (B, after, H / stride, W / stride), rounded up."""
        kept = images[:, :, :: self.step, :: self.step] if self.step > 1 else images
        return super().forward(kept)


def start_weights(network: nn.Module) -> None:
    """Draws every convolution from the normal distribution with variance 2 / fan-out.

    Source: He et al. (2015), arXiv:1502.01852, equation 14. The papers of the benchmark do not
    state theirs; the linear layer and BatchNorm keep PyTorch's default.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class WideResNet(nn.Module):
    """Returns logits from three groups of pre-activation blocks with widened channels.

    Source: Zagoruyko & Komodakis (2016), arXiv:1605.07146, WRN-depth-widen_factor without dropout.
    The server of "Protective Label Enhancement" is WRN-28-2 and says no more. Malek Esmaeili et al.
    (2021, ALIBI), arXiv:2106.03408, take WRN-28-4 on CIFAR-10 and WRN-28-8 on CIFAR-100; their code
    has `negative_slope=0.1`, `bn_momentum=0.001` and `raw_downsampling=True`.

    Args:
        num_classes: K >= 2.
        image_shape: (H, W, C) of one image, H and W >= 8.
        depth: 6 n + 4 for n blocks in each group.
        widen_factor: channels of the groups are 16, 32 and 64 times it.
        negative_slope: of the rectifier below zero, in [0, 1); 0 is ReLU.
        bn_momentum: weight of the newest batch in BatchNorm's running statistics, in (0, 1]. With
            0.001 they need thousands of steps: a short run is then tested with stale ones.
        raw_downsampling: whether the two blocks that halve the size omit their first BatchNorm and
            rectifier (in ALIBI's code that BatchNorm exists, but its output is not used).

    >>> sum(p.numel() for p in WideResNet(10, (32, 32, 3), depth=10, widen_factor=1).parameters())
    77850
    """

    def __init__(
        self,
        num_classes: int,
        image_shape: Sequence[int],
        depth: int = 28,
        widen_factor: int = 2,
        negative_slope: float = 0.0,
        bn_momentum: float = 0.1,
        raw_downsampling: bool = False,
    ) -> None:
        super().__init__()
        check_integer("model.network.widen_factor", widen_factor, low=1)
        _, _, channels = check_classes_and_shape(num_classes, image_shape)
        if check_integer("model.network.depth", depth, low=10) % 6 != 4:
            raise InputError(
                f"model.network.depth must be 6 n + 4 (10, 16, 22, 28, ...), got {depth}"
            )
        check_number("model.network.negative_slope", negative_slope, low=0, below=1)
        check_number("model.network.bn_momentum", bn_momentum, above=0, high=1)

        self.stem = nn.Conv2d(channels, 16, 3, padding=1, bias=False)
        blocks: list[nn.Module] = []
        before = 16
        for group, after in enumerate((16 * widen_factor, 32 * widen_factor, 64 * widen_factor)):
            for index in range((depth - 4) // 6):
                halves = group > 0 and index == 0
                stride, raw = (2, raw_downsampling) if halves else (1, False)
                blocks.append(
                    PreactivationBlock(before, after, stride, negative_slope, bn_momentum, raw)
                )
                before = after
        rectifier = nn.LeakyReLU(negative_slope) if negative_slope else nn.ReLU()
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.BatchNorm2d(before, momentum=bn_momentum), rectifier)
        self.head = nn.Linear(before, num_classes)
        start_weights(self)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits (B, K) of a standardised float batch (B, C, H, W)."""
        return self.head(self.last(self.blocks(self.stem(images))).mean((2, 3)))
