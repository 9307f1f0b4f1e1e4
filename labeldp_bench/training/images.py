"""Images on the way to a network: pixels and their resolution."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.support.validate import InputError, check_choice, check_number
from labeldp_bench.training.resolution import Resolution

PIXELS = ("standardised", "unit")
Pixels = str | Sequence[Sequence[float]]
"""One of PIXELS, or a mean and a standard deviation for each channel, of pixels in [0, 1]."""


def check_pixels(pixels: object) -> None:
    """Refuses what `pixel_scale` does not know."""
    if isinstance(pixels, str) or not isinstance(pixels, Sequence):
        check_choice("trainer.pixels", pixels, PIXELS)
        return
    rows = [row for row in pixels if isinstance(row, Sequence) and not isinstance(row, str)]
    if len(rows) != len(pixels) or len(rows) != 2 or len(rows[0]) != len(rows[1]):
        raise InputError(
            "trainer.pixels must be one of standardised, unit, or two lists, means and standard "
            f"deviations, got {pixels!r}"
        )
    for mean, stddev in zip(*rows, strict=True):
        check_number("trainer.pixels", mean)
        check_number("trainer.pixels", stddev, above=0)


def pixel_scale(pixels: Pixels, images: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns the shift and the divisor of each channel that `pixels` names.

    Both float32 (C,), on `device`: a copy in each step would make a GPU wait.

    Raises:
        InputError: fixed numbers for another number of channels, or for features that are no
            pixels in [0, 255].
    """
    channels = images.shape[-1]
    if images.dtype != torch.uint8 and pixels != "standardised":
        raise InputError(
            f"trainer.pixels={pixels} is for images uint8, got {images.dtype} "
            "(trainer.pixels=standardised takes any numbers)"
        )
    if pixels == "unit":
        shift, divisor = torch.zeros(channels), torch.full((channels,), 255.0)
    elif isinstance(pixels, str):
        shift, divisor = channel_statistics(images)
    else:
        shift, divisor = (torch.tensor(values, dtype=torch.float32) * 255 for values in pixels)
        if len(shift) != channels:
            raise InputError(
                "trainer.pixels must name one mean and one standard deviation for each of "
                f"{channels} channels, got {len(shift)}"
            )
    return shift.to(device), divisor.to(device)


def channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Returns mean and standard deviation of each channel, float32 (C,), of NHWC images.

    Images are public; nothing here depends on a label.

    Args:
        images: uint8, or floats, finite, of any scale; a channel that never changes has
            standard deviation 1.

    Raises:
        InputError: a feature is NaN or infinite.
    """
    if images.dtype != torch.uint8:
        rows = images.reshape(-1, images.shape[-1]).double()
        spread, centre = torch.std_mean(rows, dim=0, correction=0)
        if not torch.isfinite(spread).all():
            raise InputError("features must be finite numbers, got NaN or infinity")
        return centre.float(), torch.where(spread > 0, spread, 1.0).float()
    values = torch.arange(256, dtype=torch.float64)
    moments = []
    for channel in images.unbind(-1):
        share = torch.bincount(channel.flatten(), minlength=256) / channel.numel()
        mean = (share * values).sum()
        moments.append((mean, (share * (values - mean) ** 2).sum().sqrt().clamp_min(1.0)))
    means, stddevs = zip(*moments, strict=True)
    return torch.stack(means).float(), torch.stack(stddevs).float()


def shrunk(images: Tensor, scale: float) -> Tensor:
    """Returns images (B, C, H, W) with sides `scale` times as long, each at least one pixel.

    Bilinear with antialiasing: every pixel counts, none is picked.
    """
    if scale == 1:
        return images
    sides = [max(1, round(side * scale)) for side in images.shape[2:]]
    return functional.interpolate(images, size=sides, mode="bilinear", antialias=True)


@torch.no_grad()
def check_takes(network: nn.Module, image: Tensor, resolution: Resolution) -> None:
    """Refuses a network that takes images of one size alone, before it is trained.

    Args:
        network: is put into evaluation mode.
        image: float (1, C, H, W), of full size, on the network's device.
        resolution: of the trainer.
    """
    for _, scale in resolution:
        try:
            network.eval()(shrunk(image, scale))
        except RuntimeError as error:
            raise InputError(
                f"trainer.resolution needs a network for images of any size, and "
                f"{type(network).__name__} cannot take {scale:g} of {tuple(image.shape[2:])} "
                "(use model=resnet18_w16, or trainer.resolution=[])"
            ) from error
