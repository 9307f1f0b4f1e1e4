"""Pre-trained weights: trained once per recipe, kept under its hash, read back without pickle."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from labeldp_bench.pretraining.state import TrainingState
from labeldp_bench.supervision.interfaces import FitCheckpoint
from labeldp_bench.support.files import only_one, replacing
from labeldp_bench.support.progress import say
from labeldp_bench.support.validate import Diverged, InputError, check_integer, check_made
from labeldp_bench.training.classifier import NetworkFactory, resolve_precision
from labeldp_bench.training.trainer import Trainer

FOLDER = "pretrained"
"""Where the weights lie, under data_dir."""


class Weights(NamedTuple):
    """A network without its classifier, on the CPU, and notes about it for the record, as text."""

    tensors: dict[str, Tensor]
    notes: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class PretrainingRecipe(ABC):
    """What configs/pretrain builds.

    Args:
        trainer: the recipe of the training.
        seed: of initial weights, order and augmentation; the same for every run.
    """

    trainer: Trainer
    seed: int = 0

    def __post_init__(self) -> None:
        check_made("pretrain.trainer", self.trainer, Trainer)
        check_integer("pretrain.seed", self.seed, low=0, high=2**63 - 1)

    @property
    @abstractmethod
    def public_data(self) -> str | None:
        """Whose labels count as public; None: it learns from the run's own features."""

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


def pretrained(
    pretraining: PretrainingRecipe,
    network: NetworkFactory,
    features: Tensor,
    recipe: Mapping[str, Any],
    data_dir: Path,
    device: torch.device,
) -> Weights:
    """Returns the weights of `recipe`; trains them unless `data_dir` has them already.

    Their notes: the file's SHA-256, the torch version and the precision that trained it, and the
    recipe's loss or test accuracy.

    Args:
        pretraining: trains them.
        network: as NetworkModel's.
        features: the run's training images.
        recipe: all that decides the weights; its hash names the file.
        data_dir: holds the data sets and the folder `pretrained`.
        device: where to train.

    Raises:
        InputError: as `train`; or nothing can be written there; or a damaged file.
    """
    path = data_dir / FOLDER / f"{recipe_hash(recipe)}.safetensors"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        waiting = "waiting for the process that pre-trains the same network"
        with only_one(path, lambda: say(waiting)):
            if not path.exists():
                data = pretraining.public_data or "the run's features, without labels"
                say(f"pre-training on {data}, once; later runs read the weights")
                precision = resolve_precision(pretraining.trainer.precision, device)
                states = TrainingState(
                    path.with_suffix(".checkpoint.pt"),
                    {"torch": torch.__version__, "device": device.type, "precision": precision},
                )
                tensors, notes = pretraining.train(
                    network, features, data_dir, device, states.resumed()
                )
                _write(path, tensors, recipe, {**notes, "precision": precision})
                states.remove()
            return read(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read or written: {error.strerror}") from error
    except Diverged as error:  # it names the keys of a run's own trainer
        raise Diverged(str(error).replace("trainer.", "pretrain.trainer.")) from None


def recipe_hash(recipe: Mapping[str, Any]) -> str:
    """Returns 16 hex digits of the SHA-256 of a recipe.

    >>> recipe_hash({"b": 1, "a": 2}) == recipe_hash({"a": 2, "b": 1})
    True
    """
    text = json.dumps(recipe, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: Path) -> Weights:
    """Returns the weights of a file; nothing in it is executed.

    Raises:
        InputError: the file is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = dict(file.metadata() or {})
    except SafetensorError as error:
        raise InputError(
            f"{path} is damaged: {error} (delete it, and the next run trains it again)"
        ) from error
    about.pop("recipe", None)  # the record's own config has it
    about["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return Weights(tensors, {f"pretrained_{key}": value for key, value in about.items()})


def _write(
    path: Path, tensors: dict[str, Tensor], recipe: Mapping[str, Any], notes: Mapping[str, str]
) -> None:
    recipe_text = json.dumps(recipe, sort_keys=True)
    metadata = {"recipe": recipe_text, "torch_version": torch.__version__, **notes}
    with replacing(path) as partial:
        partial.write_bytes(save(tensors, metadata))
