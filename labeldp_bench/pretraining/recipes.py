"""Recipes of pre-training: on public labels, and several side by side."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms import NoPrivacy
from labeldp.supervision import Supervision, predict
from labeldp.support.progress import say
from labeldp.support.validate import InputError, check_integer, check_made
from labeldp_bench.data.images import ImageData
from labeldp_bench.interfaces import Classifier, Epoch, FitCheckpoint, NetworkFactory, Session
from labeldp_bench.models.efficientnet import EfficientNetLite
from labeldp_bench.models.encoders import FeatureConcat, MirroredFeatureConcat
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training.fit import adopt, below_classifier, resolve_precision
from labeldp_bench.training.network_fit import NetworkFit
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

    def network(self, own: NetworkFactory, data_dir: Path) -> NetworkFactory:
        """Returns what makes the networks that the weights are for.

        Args:
            own: the model's.
            data_dir: holds the data sets, and what is computed from them once.
        """
        return own

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
        raise NotImplementedError("the parts of a combined recipe are trained, each on its own")


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


@dataclass(frozen=True)
class Pretraining(TrainedRecipe):
    """Trains a network on a public, labelled data set; its last linear layer is left behind.

    Costs no privacy: no label of the run is touched, and those of `dataset` count as public.

    Source: Ghazi et al. (2021), arXiv:2102.06062, rows LP-1ST* and LP-2ST*: an ordinary ResNet-18
    trained on CIFAR-100, a new classifier, nothing frozen.

    Args:
        trainer, seed: as every recipe's.
        dataset: the public data set.
    """

    dataset: ImageData

    def __post_init__(self) -> None:
        super().__post_init__()
        check_made("pretrain.dataset", self.dataset, ImageData, see="pretrain")

    @property
    def public_data(self) -> str:
        """The name of the public data set."""
        return self.dataset.name

    def train(
        self,
        network: NetworkFactory,
        features: Tensor,
        data_dir: Path,
        device: torch.device,
        checkpoint: FitCheckpoint | None = None,
    ) -> Weights:
        """Returns the weights below the classifier, and the accuracy on the public test set."""
        bundle = self.dataset.draw(data_dir, self.seed)
        _check_shapes(network, bundle.train_features, features)
        public = bundle.store.open(eps=float("inf"), seed=self.seed)
        supervision = Supervision.of([public.release(NoPrivacy())], loss_named("plain"))

        def accuracy(classifier: Classifier) -> float:
            predicted = predict(classifier.scores(bundle.test_features), self.seed)
            return int((predicted == bundle.test_labels).sum()) / len(predicted)

        def report(epoch: Epoch, classifier: Classifier) -> None:
            say(
                f"  epoch {epoch.number:>3}/{epoch.total}  loss {epoch.loss:.4f}  "
                f"test {100 * accuracy(classifier):.2f} %  {epoch.seconds:.1f} s"
            )

        session = Session(self.seed, device, report, say, checkpoint=checkpoint)
        model = NetworkModel(network, self.trainer)
        classifier = model.fit_by(NetworkFit, bundle.train_features, supervision, session)
        notes = {"test_accuracy": f"{accuracy(classifier):.6f}"}
        return Weights(below_classifier(classifier.network), notes)


def _check_shapes(network: NetworkFactory, public: Tensor, own: Tensor) -> None:
    """Refuses images of another shape now, rather than after the training."""
    with torch.random.fork_rng(devices=[]):
        of_public, of_own = (
            network(num_classes=2, image_shape=tuple(images.shape[1:])) for images in (public, own)
        )
    adopt(of_own, below_classifier(of_public))


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

    def network(self, own: NetworkFactory, data_dir: Path) -> NetworkFactory:
        """Returns the networks of all parts side by side."""
        networks = [part.network(own, data_dir) for part in self.parts.values()]
        return partial(self.beside, networks=networks)


@dataclass(frozen=True)
class Mirrored(Combined):
    """Averages the features of each image and of its mirror image, left for right.

    Source: ours; evaluation on an image and its mirror image is Krizhevsky et al. (2012), section
    4.1, with whole classifiers in place of features.

    Args:
        seed, parts: as `Combined`.
    """

    beside: ClassVar[type[FeatureConcat]] = MirroredFeatureConcat


@dataclass(frozen=True)
class ImageNet(PretrainingRecipe):
    """Takes the weights of an `EfficientNetLite` from the package that brings them.

    Costs no privacy: no label of the run is touched. Nothing is trained.

    Args:
        seed: has no effect, since nothing is drawn.
    """

    @property
    def public_data(self) -> str:
        """The data set whose labels count as public."""
        return "imagenet"

    def precision_on(self, device: torch.device) -> str:
        """Returns the precision in which the weights are kept."""
        return "float32"

    def network(self, own: NetworkFactory, data_dir: Path) -> NetworkFactory:
        """Returns the model's network; its features are kept under `data_dir`."""
        return partial(_keeping, own, data_dir / "encodings")

    def train(
        self,
        network: NetworkFactory,
        features: Tensor,
        data_dir: Path,
        device: torch.device,
        checkpoint: FitCheckpoint | None = None,
    ) -> Weights:
        """Returns the weights below the classifier.

        Raises:
            InputError: another network, or the package of its weights is not installed.
        """
        built = network(num_classes=2, image_shape=tuple(features.shape[1:]))
        if not isinstance(built, EfficientNetLite):
            raise InputError(
                f"pretrain=imagenet has no weights for {type(built).__name__} (use encoder=lite0 "
                "with model=probe, ridge and their kind, or model=efficientnet_lite0)"
            )
        return Weights(built.imagenet_weights(), {})


def _keeping(own: NetworkFactory, folder: Path, **shape: object) -> Any:
    """Returns a network whose features an encoder keeps in `folder`."""
    network: Any = own(**shape)
    network.encodings = folder
    return network
