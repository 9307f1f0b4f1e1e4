"""Wide residual network."""

from collections.abc import Sequence

from torch import Tensor, nn

from labeldp.support.validate import InputError, check_integer, check_number
from labeldp_bench.models.linear import check_classes_and_shape
from labeldp_bench.models.resnet import PreactivationBlock, start_weights


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
