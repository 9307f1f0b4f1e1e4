"""Several pre-trainings side by side, of images or of them and their mirror images."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from labeldp.support.validate import InputError, check_made
from labeldp_bench.interfaces import FitCheckpoint, NetworkFactory
from labeldp_bench.models.encoders import FeatureConcat, MirroredFeatureConcat
from labeldp_bench.pretraining.weights import PretrainingRecipe, Weights


@dataclass(frozen=True)
class Combined(PretrainingRecipe):
    """Puts the features of several pre-trainings side by side; each is cached on its own.

    Args:
        seed: unused: each part has its own.
        parts: name, as `pretrain=` has it, to recipe.
    """

    parts: Mapping[str, PretrainingRecipe]

    public_data: ClassVar[None] = None
    own_network: ClassVar[bool] = True
    beside: ClassVar[type[FeatureConcat]] = FeatureConcat
    """Puts the networks side by side."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts:
            raise InputError("pretrain.parts must name at least one pre-training")
        for name, part in self.parts.items():
            check_made(f"pretrain.parts.{name}", part, PretrainingRecipe)
            if part.public_data is not None:
                raise InputError(f"pretrain.parts.{name} uses labels, and cannot be a part")

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision of the first part."""
        return next(iter(self.parts.values())).precision_on(device)

    def side_by_side(self) -> Mapping[str, PretrainingRecipe]:
        """Returns the parts."""
        return self.parts

    def train(
        self,
        network: NetworkFactory,
        features: Tensor,
        data_dir: Path,
        device: torch.device,
        checkpoint: FitCheckpoint | None = None,
    ) -> Weights:
        """Is never called: each part is trained on its own."""
        raise NotImplementedError

    def network(self, own: NetworkFactory) -> NetworkFactory:
        """Returns the networks of all parts side by side."""
        return partial(self.beside, networks=[part.network(own) for part in self.parts.values()])


@dataclass(frozen=True)
class Mirrored(Combined):
    """Averages the features of each image and of its mirror image, left for right.

    Source: ours; evaluation on an image and its mirror image is Krizhevsky et al. (2012), section
    4.1, with whole classifiers in place of features.

    Args:
        seed, parts: as `Combined`.
    """

    beside: ClassVar[type[FeatureConcat]] = MirroredFeatureConcat
