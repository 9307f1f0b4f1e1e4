"""Pre-training: what a network knows before any label of the run is released."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from labeldp_bench.data.images import ImageData
from labeldp_bench.evaluate import Evaluator, accuracy_of
from labeldp_bench.exchange import Session, Supervision
from labeldp_bench.files import only_one, replacing
from labeldp_bench.losses import loss_named
from labeldp_bench.mechanisms import NoPrivacy
from labeldp_bench.models.network import NetworkModel, adopt, below_classifier
from labeldp_bench.progress import say
from labeldp_bench.train import Trainer
from labeldp_bench.validate import InputError, check_integer, check_made

FOLDER = "pretrained"
"""Where the weights lie, under data_dir."""


class Weights(NamedTuple):
    """A network without its classifier, and what its file says.

    Attributes:
        tensors: the weights.
        notes: for the record, as text: the file's SHA-256, the torch version that trained it, the
            precision that `auto` came to, and the recipe's loss or test accuracy.
    """

    tensors: dict[str, Tensor]
    notes: dict[str, str]


class PretrainingRecipe(Protocol):
    """What configs/pretrain builds."""

    @property
    def public_data(self) -> str | None:
        """Whose labels count as public; None where it learns from the run's own features."""

    def train(
        self,
        network: Callable[..., nn.Module],
        features: Tensor,
        data_dir: Path,
        device: torch.device,
    ) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Returns the weights below the classifier, CPU, and what there is to say of them.

        Args:
            network: as NetworkModel's.
            features: the run's training images, uint8 (N, H, W, C); public.
            data_dir: holds the data sets.
            device: where to train.

        Raises:
            InputError: no such data set, or a network or images that do not fit.
        """


@dataclass(frozen=True)
class Pretraining:
    """Trains a network on a public, labelled data set; its last linear layer is left behind.

    Costs no privacy: no label of the run is touched, and those of `dataset` count as public.

    Source: Ghazi et al. (2021), arXiv:2102.06062, rows LP-1ST* and LP-2ST*: an ordinary ResNet-18
    trained on CIFAR-100, a new classifier, nothing frozen.

    Args:
        dataset: the public data set.
        trainer: the recipe.
        seed: of initial weights, order and augmentation; the same for every run.
    """

    dataset: ImageData
    trainer: Trainer
    seed: int = 0

    def __post_init__(self) -> None:
        check_made("pretrain.dataset", self.dataset, ImageData, see="pretrain")
        check_made("pretrain.trainer", self.trainer, Trainer)
        check_integer("pretrain.seed", self.seed, low=0, high=2**63 - 1)

    @property
    def public_data(self) -> str:
        """The name of the public data set."""
        return self.dataset.name

    def train(
        self,
        network: Callable[..., nn.Module],
        features: Tensor,
        data_dir: Path,
        device: torch.device,
    ) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Returns the weights below the classifier, and the accuracy on the public test set."""
        bundle = self.dataset.draw(data_dir, self.seed)
        own = tuple(features.shape[1:])
        _check_fit(network, tuple(bundle.train_features.shape[1:]), own)
        say(f"pre-training on {self.dataset.name}, once; later runs read the weights")
        public = bundle.vault.open(budget=float("inf"), seed=self.seed)
        supervision = Supervision.of([public.release(NoPrivacy())], loss_named("plain"))
        evaluator = Evaluator(bundle, "last", self.seed, history=None, say=say)
        session = Session(self.seed, device, evaluator.on_epoch, say)
        model = NetworkModel(network, self.trainer)
        classifier = model.fit(bundle.train_features, supervision, session)
        accuracy = accuracy_of(evaluator.finish(classifier))
        precision = model.resolved_precision(device)
        about = {"test_accuracy": f"{accuracy:.6f}", "precision": precision}
        return below_classifier(classifier.network), about


def pretrained(
    pretraining: PretrainingRecipe,
    network: Callable[..., nn.Module],
    features: Tensor,
    recipe: Mapping[str, Any],
    data_dir: Path,
    device: torch.device,
) -> Weights:
    """Returns the weights of `recipe`, trained unless `data_dir` has them already.

    Args:
        pretraining: trains them.
        network: as NetworkModel's.
        features: the run's training images.
        recipe: all that decides the weights; its hash names the file.
        data_dir: holds the data sets and the folder `pretrained`.
        device: where to train.

    Raises:
        InputError: as `train`, or nothing can be written there, or a damaged file.
    """
    path = data_dir / FOLDER / f"{recipe_hash(recipe)}.safetensors"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with only_one(
            path, lambda: say("waiting for the process that pre-trains the same network")
        ):
            if not path.exists():
                tensors, about = pretraining.train(network, features, data_dir, device)
                _write(path, tensors, recipe, about)
            return read(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read or written: {error.strerror}") from error


def recipe_hash(recipe: Mapping[str, Any]) -> str:
    """Returns 16 hex digits of the SHA-256 of a recipe.

    >>> recipe_hash({"b": 1, "a": 2}) == recipe_hash({"a": 2, "b": 1})
    True
    """
    text = json.dumps(recipe, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_fit(
    network: Callable[..., nn.Module], public: tuple[int, ...], own: tuple[int, ...]
) -> None:
    """Refuses images of another shape now, rather than after the training."""
    with torch.random.fork_rng(devices=[]):
        there, here = (network(num_classes=2, image_shape=shape) for shape in (public, own))
        adopt(here, below_classifier(there))


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
    path: Path, tensors: dict[str, Tensor], recipe: Mapping[str, Any], about: Mapping[str, str]
) -> None:
    recipe_text = json.dumps(recipe, sort_keys=True)
    metadata = {"recipe": recipe_text, "torch_version": torch.__version__, **about}
    with replacing(path) as partial:
        partial.write_bytes(save(tensors, metadata))
