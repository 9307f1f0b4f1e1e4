"""Augmentation of a batch of images on the device that holds it, by index arithmetic.

Each class is called with images and a generator. It draws a few small numbers per image from the
CPU generator and sends them to the images' device, so that the same seed gives the same
augmentation on every device. Nothing waits for a GPU: no boolean mask selects, nothing is read
back. The functions below the classes move pixels to where those numbers say.

Images are float (B, C, H, W) of any scale; 0 is black for pixels, and the mean for standardised
images. Shape, memory format and dtype stay as they are.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from labeldp.support.validate import InputError, check_choice, check_integer, check_number

Augmentation = Callable[[Tensor, Generator], Tensor]
SCOPES = ("per_sample", "per_batch")


@dataclass(frozen=True)
class PadCrop:
    """Returns each image padded on four sides and cropped to its size at a random place.

    Source: He et al. (2016), arXiv:1512.03385, section 4.2 (zeros); BlockRR's code reflects.

    Args:
        padding: pixels on each side.
        mode: `zeros` or `reflect` (the border pixel is not repeated).
        max_offset: crops start at 0..max_offset in the padded image; None is 2 * padding, all of
            them. Ghazi et al. (2021), arXiv:2102.06062, in their code never draw the last one:
            padding 4 with max_offset 7.
    """

    padding: int = 4
    mode: str = "zeros"
    max_offset: int | None = None

    def __post_init__(self) -> None:
        check_integer("trainer.augment: padding", self.padding, low=0)
        check_choice("trainer.augment: mode", self.mode, ("zeros", "reflect"))
        if self.max_offset is not None:
            high = 2 * self.padding
            check_integer("trainer.augment: max_offset", self.max_offset, low=0, high=high)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draws one offset down and one across per image."""
        last = 2 * self.padding if self.max_offset is None else self.max_offset
        offsets = torch.randint(last + 1, (len(images), 2), generator=generator)
        return crop(images, send(offsets, images), self.padding, self.mode)


@dataclass(frozen=True)
class Flip:
    """Returns each image mirrored left to right with probability 1/2."""

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draws one coin per image."""
        coins = send(torch.randint(2, (len(images),), generator=generator), images)
        is_mirrored = coins[:, None, None, None] != 0
        return like(images, torch.where(is_mirrored, images.flip(-1), images))


@dataclass(frozen=True)
class Cutout:
    """Returns each image with one square, wholly inside it, filled with a constant.

    Source: DeVries & Taylor (2017), arXiv:1708.04552, whose squares may reach over the border; the
    codes of Ghazi et al. (2021) and BlockRR keep them inside, as we do.

    Args:
        size: pixels of one side.
        scope: `per_sample` (BlockRR), or `per_batch`: one place for all images (Ghazi et al.).
        fill: the constant.
        skip_last: whether the square never touches the last row and column, as in both codes
            (top-left corner in 0..23 instead of 0..24 for size 8 and 32 pixels).
    """

    size: int = 8
    scope: str = "per_sample"
    fill: float = 0.0
    skip_last: bool = False

    def __post_init__(self) -> None:
        check_integer("trainer.augment: size", self.size, low=1)
        check_choice("trainer.augment: scope", self.scope, SCOPES)
        check_number("trainer.augment: fill", self.fill)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draws one corner per image or per batch."""
        sides = images.shape[2:]
        places = [side - self.size + (0 if self.skip_last else 1) for side in sides]
        if min(places) < 1:
            raise InputError(
                f"trainer.augment: size must leave room in {sides[0]} x {sides[1]}, got {self.size}"
            )
        size = (_draws_per_batch(self.scope, images),)
        drawn = [torch.randint(place, size, generator=generator) for place in places]
        corners = torch.stack(drawn, 1).expand(len(images), 2)
        return erase(images, send(corners, images), self.size, self.fill)


@dataclass(frozen=True)
class Affine:
    """Returns each image turned, scaled, sheared and shifted at random; its border goes on outside.

    Source: ours; for contrastive pre-training, where views are to differ in all but the content.

    Args:
        angle: turned by up to so many radians either way.
        scale: height and width, each on its own, by a factor whose inverse is in
            [1 - scale, 1 + scale]; at most 0.9.
        shear: rows slide by up to this share of their distance from the middle.
        shift: up to this share of the side, down and across.
    """

    angle: float = 0.35
    scale: float = 0.25
    shear: float = 0.35
    shift: float = 0.1

    def __post_init__(self) -> None:
        for key in ("angle", "shear", "shift"):
            check_number(f"trainer.augment: {key}", getattr(self, key), low=0)
        check_number("trainer.augment: scale", self.scale, low=0, high=0.9)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Draws six numbers per image."""
        drawn = 2 * torch.rand((6, len(images)), generator=generator) - 1
        angle, shear = self.angle * drawn[0], self.shear * drawn[1]
        high, wide = 1 + self.scale * drawn[2], 1 + self.scale * drawn[3]
        down, across = 2 * self.shift * drawn[4], 2 * self.shift * drawn[5]  # the side is 2 long
        rows = [
            torch.stack([angle.cos() * wide, shear - angle.sin(), across], 1),
            torch.stack([angle.sin(), angle.cos() * high, down], 1),
        ]
        return warp(images, send(torch.stack(rows, 1), images))


class Mixing(NamedTuple):
    """How a batch was mixed; the loss of released labels r is mixed alike.

    weight * loss(f, r) + (1 - weight) * loss(f, r[partner]) works for every kind of release.

    Attributes:
        partner: int64 (B,), each image's partner by its position in the batch.
        weight: float32 (B,) in [0, 1], each image's own weight.
    """

    partner: Tensor
    weight: Tensor


@dataclass(frozen=True)
class Mixup:
    """Returns weight * image + (1 - weight) * partner, with weight ~ Beta(alpha, alpha).

    Source: Zhang et al. (2018), arXiv:1710.09412. Ghazi et al. (2021), arXiv:2102.06062: one weight
    per batch, partner reversed; BlockRR's code: one weight per batch, partner random.

    Args:
        alpha: > 0; a large one draws the weights to 1/2. A list holds one for each stage of a
            learner with several: LP-2ST takes less mixup in its second stage.
        scope: `per_batch`: one weight for all images; `per_sample`: one each.
        partner: `random`: a permutation of the batch; `reversed`: the batch backwards, where the
            middle image of an odd batch meets itself.
    """

    alpha: float | Sequence[float]
    scope: str = "per_batch"
    partner: str = "random"

    def __post_init__(self) -> None:
        for alpha in self.alpha if isinstance(self.alpha, Sequence) else [self.alpha]:
            check_number("trainer.mixup.alpha", alpha, above=0)
        check_choice("trainer.mixup.scope", self.scope, SCOPES)
        check_choice("trainer.mixup.partner", self.partner, ("random", "reversed"))

    def at(self, stage: int, stages: int) -> "Mixup":
        """Returns the mixup of one of `stages` stages, counted from 0.

        Raises:
            InputError: `alpha` is a list of another length.
        """
        if not isinstance(self.alpha, Sequence):
            return self
        if len(self.alpha) != stages:
            raise InputError(
                "trainer.mixup.alpha must be a number, or a list with one for each stage of the "
                f"learner, which has {stages}; got {list(self.alpha)}"
            )
        return replace(self, alpha=self.alpha[stage])

    def __call__(self, images: Tensor, generator: Generator) -> tuple[Tensor, Mixing]:
        """Returns the mixed images, and how they were mixed."""
        assert not isinstance(self.alpha, Sequence), "take the mixup of one stage with `at`"
        count = _draws_per_batch(self.scope, images)
        # torch.distributions.Beta draws the same way, but takes no generator.
        shape = torch.full((count, 2), float(self.alpha), dtype=torch.float64)
        drawn = torch._sample_dirichlet(shape, generator=generator)[:, 0].float()
        weight = send(drawn.expand(len(images)).contiguous(), images)
        if self.partner == "random":
            order = torch.randperm(len(images), generator=generator)
        else:
            order = torch.arange(len(images)).flip(0)
        partner = send(order, images)
        others = like(images, images.index_select(0, partner))
        share = weight[:, None, None, None].to(images.dtype)
        return torch.lerp(others, images, share), Mixing(partner, weight)


def crop(images: Tensor, offsets: Tensor, padding: int, mode: str = "zeros") -> Tensor:
    """Returns images cropped to their own size at `offsets`, int64 (B, 2), in the padded ones."""
    count, channels, height, width = images.shape
    if mode == "reflect" and padding >= min(height, width):
        raise InputError(
            f"trainer.augment: padding must be < {min(height, width)} to be reflected, "
            f"got {padding}"
        )
    how = "constant" if mode == "zeros" else mode
    padded = F.pad(images, (padding,) * 4, how).permute(0, 2, 3, 1)
    rows = torch.arange(height, device=images.device) + offsets[:, :1]
    columns = torch.arange(width, device=images.device) + offsets[:, 1:]
    # One flat index per pixel: index_select moves a pixel's channels together, which on a CPU is
    # more than twice as fast as indexing by image, row and column.
    wide = width + 2 * padding
    first = torch.arange(count, device=images.device) * ((height + 2 * padding) * wide)
    index = (first[:, None] + rows * wide)[:, :, None] + columns[:, None, :]
    pixels = padded.reshape(-1, channels).index_select(0, index.flatten())
    return like(images, pixels.view(count, height, width, channels).permute(0, 3, 1, 2))


def warp(images: Tensor, matrices: Tensor, side: int | None = None) -> Tensor:
    """Returns images whose pixel at p was at `matrices` (B, 2, 3) times (p, 1), sides [-1, 1].

    Of their own size, or with `side` pixels in both directions.
    """
    size = list(images.shape) if side is None else [*images.shape[:2], side, side]
    grid = F.affine_grid(matrices, size, align_corners=False).to(images.dtype)
    return like(images, F.grid_sample(images, grid, padding_mode="border", align_corners=False))


def erase(images: Tensor, corners: Tensor, size: int, fill: float) -> Tensor:
    """Returns images with the square at top-left `corners`, int64 (B, 2), filled with `fill`."""
    height, width = images.shape[2:]
    rows = torch.arange(height, device=images.device) - corners[:, :1]
    columns = torch.arange(width, device=images.device) - corners[:, 1:]
    inside_rows = (rows >= 0) & (rows < size)
    inside_columns = (columns >= 0) & (columns < size)
    inside = inside_rows[:, None, :, None] & inside_columns[:, None, None, :]
    return like(images, torch.where(inside, fill, images))


def _draws_per_batch(scope: str, images: Tensor) -> int:
    return len(images) if scope == "per_sample" else 1


def send(drawn: Tensor, images: Tensor) -> Tensor:
    """Returns drawn numbers on the images' device."""
    # CUDA copies ordinary memory to a buffer first, so that not waiting is safe.
    return drawn.to(images.device, non_blocking=True)


def like(images: Tensor, result: Tensor) -> Tensor:
    """Returns the result in the memory format of the images."""
    last = images.is_contiguous(memory_format=torch.channels_last)
    return result.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


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
        for key in ("contrast", "saturation", "chance", "grey"):
            check_number(f"trainer.augment: {key}", getattr(self, key), low=0, high=1)

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
