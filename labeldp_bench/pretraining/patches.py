"""Whitened patches of the training images as filters: features without a trained network."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.support import seeding
from labeldp.support.validate import InputError, check_integer, check_number
from labeldp_bench.interfaces import FitCheckpoint, NetworkFactory
from labeldp_bench.models.convolutional import FLAT, PatchNetwork
from labeldp_bench.pretraining.recipes import PretrainingRecipe, Weights
from labeldp_bench.training.fit import check_images
from labeldp_bench.training.images import pixel_scale

DRAWN = 100_000
"""Patches whose statistics whiten all others."""
ROUNDS = 100
"""At most, of draws until so many patches have a shape."""


@dataclass(frozen=True)
class Patches(PretrainingRecipe):
    """Takes random patches of the training images, whitened, as the filters of a `PatchNetwork`.

    Costs no privacy: it sees the training features of the run, which are public, and no label.
    Nothing is trained; minutes go into the features themselves.

    Source: as `PatchNetwork`.

    Args:
        seed: as every recipe's.
        filters: how many patches, each beside its negative, >= 1.
        size: pixels of a patch's side, >= 2.
        cells: of the grid over which answers are averaged, along each side of the image, >= 1.
        threshold: what an answer must exceed to count, >= 0.
        whitening: > 0; added to the eigenvalues of the patches' covariance. Theirs is 0.1.
    """

    filters: int = 1024
    size: int = 6
    cells: int = 2
    threshold: float = 0.25
    whitening: float = 0.1

    public_data: ClassVar[None] = None
    own_network: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("filters", "size", "cells"):
            check_integer(f"pretrain.{key}", getattr(self, key), low=2 if key == "size" else 1)
        check_number("pretrain.threshold", self.threshold, low=0)
        check_number("pretrain.whitening", self.whitening, above=0)

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of the filters."""
        return "float32"

    def network(self, own: NetworkFactory, data_dir: Path) -> NetworkFactory:
        """Returns a network of filters; the model's own is not used."""
        return partial(
            PatchNetwork,
            filters=self.filters,
            size=self.size,
            cells=self.cells,
            threshold=self.threshold,
        )

    def train(
        self,
        network: NetworkFactory,
        features: Tensor,
        data_dir: Path,
        device: torch.device,
        checkpoint: FitCheckpoint | None = None,
    ) -> Weights:
        """Returns filters of mean 0, float32 (F, C, size, size), and what is taken off responses.

        A response is the product of a whitened patch and a whitened filter of length 1. Both
        whitenings and the contrast of the filter are in what is returned.
        """
        check_images(features)
        draws = seeding.generator(self.seed, "train", "patches")
        cpu = torch.device("cpu")
        scale = pixel_scale("standardised", features, cpu)
        patches = random_patches(features, DRAWN, self.size, draws, scale)
        mean = patches.mean(0)
        whiten = whitening(patches - mean, self.whitening)
        chosen = random_patches(features, self.filters, self.size, draws, scale)
        filters = (chosen - mean) @ whiten
        filters = filters / filters.norm(dim=1, keepdim=True).clamp_min(1e-12)
        applied = filters @ whiten
        offsets = applied @ mean
        applied = applied - applied.mean(1, keepdim=True)
        shape = (self.filters, self.size, self.size, features.shape[-1])
        tensors = {
            "filters": applied.view(shape).permute(0, 3, 1, 2).float().contiguous(),
            "offsets": offsets.float(),
        }
        return Weights(tensors, {})


def random_patches(
    images: Tensor, count: int, size: int, draws: torch.Generator, scale: tuple[Tensor, Tensor]
) -> Tensor:
    """Returns patches of mean 0 and one contrast, float64 (count, size * size * C).

    Flat ones, such as an empty margin, are drawn again: they have no shape to look for.

    Args:
        images: uint8 (N, H, W, C).
        count: how many.
        size: of a side, in pixels.
        draws: stream.
        scale: shift and divisor of each channel.

    Raises:
        InputError: hardly a patch has a shape.
    """
    number, height, width, _ = images.shape
    if min(height, width) < size:
        raise InputError(f"pretrain.size must be at most {min(height, width)}, got {size}")
    kept: list[Tensor] = []
    found = 0
    for _ in range(ROUNDS):
        rows, downs, acrosses = (
            torch.randint(high, (count, 1, 1), generator=draws)
            for high in (number, height - size + 1, width - size + 1)
        )
        step = torch.arange(size)
        pixels = images[rows, downs + step[:, None], acrosses + step]
        patches = ((pixels.double() - scale[0]) / scale[1]).flatten(1)
        patches = patches - patches.mean(1, keepdim=True)
        variance = patches.square().mean(1, keepdim=True)
        has_shape = variance[:, 0] > FLAT
        kept.append((patches / (variance + FLAT).sqrt())[has_shape])
        found += len(kept[-1])
        if found >= count:
            return torch.cat(kept)[:count]
        if found < count / ROUNDS:
            break
    raise InputError(
        "pretrain=patches needs images with some structure: nearly all patches have one colour"
    )


def whitening(patches: Tensor, added: float) -> Tensor:
    """Returns the symmetric matrix that makes all directions alike (ZCA), float64 (d, d).

    Args:
        patches: mean 0, (n, d).
        added: > 0, to the eigenvalues of their covariance.
    """
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    return vectors @ torch.diag((values.clamp_min(0) + added).rsqrt()) @ vectors.T
