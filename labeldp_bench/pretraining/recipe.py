"""What configs/pretrain builds: a recipe for weights."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from labeldp.support.validate import check_integer, check_made
from labeldp_bench.interfaces import FitCheckpoint, NetworkFactory
from labeldp_bench.training.classifier import resolve_precision
from labeldp_bench.training.trainer import Trainer


class Weights(NamedTuple):
    """A network without its classifier, on the CPU, and notes about it for the record, as text."""

    tensors: dict[str, Tensor]
    notes: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class PretrainingRecipe(ABC):
    """What configs/pretrain builds.

    Args:
        seed: of all that is drawn; the same for every run.
    """

    seed: int = 0

    own_network: ClassVar[bool] = False
    """Whether it brings a network along; the model's own one is not used then."""

    def __post_init__(self) -> None:
        check_integer("pretrain.seed", self.seed, low=0, high=2**63 - 1)

    @property
    @abstractmethod
    def public_data(self) -> str | None:
        """Whose labels count as public; None: it learns from the run's own features."""

    @abstractmethod
    def precision_on(self, device: torch.device) -> str:
        """Returns what the training computes in: `bf16` or `float32`."""

    def network(self, own: NetworkFactory) -> NetworkFactory:
        """Returns what makes the networks that the weights are for.

        Args:
            own: the model's.
        """
        return own

    def side_by_side(self) -> Mapping[str, "PretrainingRecipe"]:
        """Returns the recipes that it consists of, by name; empty for a single one."""
        return {}

    @abstractmethod
    def train(
        self,
        network: NetworkFactory,
        features: Tensor,
        data_dir: Path,
        device: torch.device,
        checkpoint: FitCheckpoint | None = None,
    ) -> Weights:
        """Returns the weights below the classifier.

        Args:
            network: as NetworkModel's.
            features: the run's training images, uint8 (N, H, W, C); public.
            data_dir: holds the data sets.
            device: where to train.
            checkpoint: where the training leaves its state now and then; None: nowhere.

        Raises:
            InputError: no such data set, or a network or images that do not fit.
        """


@dataclass(frozen=True, kw_only=True)
class TrainedRecipe(PretrainingRecipe):
    """A pre-training with epochs.

    Args:
        trainer: the recipe of the training.
        seed: of initial weights, order and augmentation.
    """

    trainer: Trainer

    def __post_init__(self) -> None:
        super().__post_init__()
        check_made("pretrain.trainer", self.trainer, Trainer)

    def precision_on(self, device: torch.device) -> str:
        """Returns `bf16` or `float32`."""
        return resolve_precision(self.trainer.precision, device)
