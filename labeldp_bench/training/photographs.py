"""Views of photographs for contrastive pre-training: another part of it, in other colours.

As in `augment.py`: each class draws a few numbers per image from the CPU generator and sends them
to the images' device, so that the same seed gives the same views on every device.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from labeldp.support.validate import InputError, check_integer, check_number
from labeldp_bench.training.augment import like, send, warp

LUMA = (0.299, 0.587, 0.114)
"""Share of red, green and blue in how bright a colour looks (ITU-R BT.601)."""
YIQ = (LUMA, (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))
"""From red, green, blue to brightness and the two axes of colour (NTSC)."""


@dataclass(frozen=True)
class CropResize:
    """Returns a random part of each image, stretched to one size.

    Source: Chen et al. (2020), arXiv:2002.05709, appendix A; areas from 20 % on, as is usual for
    32 x 32 pixels, where theirs begin at 8 %.

    Args:
        area: least share of the image that is kept, in (0, 1]; evenly drawn up to 1.
        ratio: width by height is drawn, evenly on a log scale, from [ratio, 1 / ratio], in (0, 1].
        side: of the result, in pixels; None: the image's own. With about three quarters of it
            things have the size that they have in whole images (Touvron et al. 2019,
            arXiv:1906.06423), and a step takes half the time.
    """

    area: float = 0.2
    ratio: float = 0.75
    side: int | None = None

    def __post_init__(self) -> None:
        check_number("trainer.augment: area", self.area, above=0, high=1)
        check_number("trainer.augment: ratio", self.ratio, above=0, high=1)
        if self.side is not None:
            check_integer("trainer.augment: side", self.side, low=1)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draws four numbers per image."""
        drawn = torch.rand((4, len(images)), generator=generator)
        area = self.area + (1 - self.area) * drawn[0]
        root = torch.exp(math.log(self.ratio) / 2 * (2 * drawn[1] - 1))
        # A part that sticks out is cut to the image, as in torchvision after ten refusals.
        wide, high = (area.sqrt() * root).clamp_max(1), (area.sqrt() / root).clamp_max(1)
        across, down = (1 - wide) * (2 * drawn[2] - 1), (1 - high) * (2 * drawn[3] - 1)
        none = torch.zeros_like(wide)
        rows = [torch.stack([wide, none, across], 1), torch.stack([none, high, down], 1)]
        return warp(images, send(torch.stack(rows, 1), images), self.side)


@dataclass(frozen=True)
class ColourJitter:
    """Returns each image in other colours: brightness, contrast, saturation, hue, or in grey.

    Five changes are one map of colours, a matrix and a shift for each image. It is linear, so that
    it may come after standardisation: grey is the colour of the mean pixel, and nothing is clipped.
    Images with one channel change in brightness and contrast only.

    Source: Chen et al. (2020), arXiv:2002.05709, appendix A, at half strength as theirs for
    CIFAR-10. Ours: brightness adds where theirs multiplies, the hue turns in YIQ, one order.

    Args:
        brightness: up to so much is added or taken away; 0.75 standard deviations are what a
            factor between 0.6 and 1.4 does to the mean pixel of CIFAR-10.
        contrast: differences from the image's mean brightness grow by a factor in
            [1 - contrast, 1 + contrast]; at most 1.
        saturation: the same for differences from grey.
        hue: colours turn by up to this share of a circle, either way; at most 0.5.
        chance: of those four together; otherwise colours stay.
        grey: chance of an image in grey.
    """

    brightness: float = 0.75
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    chance: float = 0.8
    grey: float = 0.2

    def __post_init__(self) -> None:
        check_number("trainer.augment: brightness", self.brightness, low=0)
        check_number("trainer.augment: hue", self.hue, low=0, high=0.5)
        for key, value in (
            ("contrast", self.contrast),
            ("saturation", self.saturation),
            ("chance", self.chance),
            ("grey", self.grey),
        ):
            check_number(f"trainer.augment: {key}", value, low=0, high=1)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draws six numbers per image."""
        if images.shape[1] not in (1, 3):
            raise InputError(
                f"trainer.augment: ColourJitter needs 1 or 3 channels, got {images.shape[1]}"
            )
        changes, turns_grey = torch.rand((2, len(images)), generator=generator)
        drawn = 2 * torch.rand((4, len(images)), generator=generator) - 1
        drawn = torch.where(changes < self.chance, drawn, 0.0)
        brightness, contrast = self.brightness * drawn[0], 1 + self.contrast * drawn[1]
        saturation = torch.where(turns_grey < self.grey, 0.0, 1 + self.saturation * drawn[2])
        numbers = torch.stack(
            [brightness, contrast, saturation, 2 * torch.pi * self.hue * drawn[3]]
        )
        return recolour(images, *send(numbers, images))


def recolour(
    images: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, angle: Tensor
) -> Tensor:
    """Returns images (B, 1 or 3, H, W) in other colours.

    Args:
        images: of any scale.
        brightness: (B,), is added.
        contrast: (B,), factor of differences from the image's mean brightness.
        saturation: (B,), factor of differences from grey.
        angle: (B,), by which colours turn around grey, in radians.
    """
    channels = images.shape[1]
    mixed = contrast[:, None, None]
    luma = images.new_ones(1) if channels == 1 else images.new_tensor(LUMA)
    if channels == 3:
        to_yiq = images.new_tensor(YIQ)
        turn = torch.zeros((len(images), 3, 3), dtype=images.dtype, device=images.device)
        turn[:, 0, 0] = 1
        turn[:, 1, 1] = turn[:, 2, 2] = saturation * angle.cos()
        turn[:, 2, 1] = saturation * angle.sin()
        turn[:, 1, 2] = -turn[:, 2, 1]
        mixed = mixed * (torch.linalg.inv(to_yiq) @ turn @ to_yiq)
    middle = images.mean((2, 3)) @ luma
    shift = brightness + (1 - contrast) * middle
    pixels = images.permute(0, 2, 3, 1).flatten(1, 2)
    changed = torch.baddbmm(shift[:, None, None], pixels, mixed.transpose(1, 2))
    return like(images, changed.view(len(images), *images.shape[2:], channels).permute(0, 3, 1, 2))
