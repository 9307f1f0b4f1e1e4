"""Pre-training on the labels of a public data set."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labeldp_bench.data.images import ImageData
from labeldp_bench.mechanisms import NoPrivacy
from labeldp_bench.models.network import NetworkModel
from labeldp_bench.supervision.interfaces import Classifier, Epoch, Session
from labeldp_bench.supervision.losses import loss_named
from labeldp_bench.supervision.prediction import predict
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support.progress import say
from labeldp_bench.support.validate import check_integer, check_made
from labeldp_bench.training.classifier import NetworkFactory, adopt, below_classifier
from labeldp_bench.training.trainer import Trainer


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
        self, network: NetworkFactory, features: Tensor, data_dir: Path, device: torch.device
    ) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Returns the weights below the classifier, and the accuracy on the public test set."""
        bundle = self.dataset.draw(data_dir, self.seed)
        own = tuple(features.shape[1:])
        _check_fit(network, tuple(bundle.train_features.shape[1:]), own)
        say(f"pre-training on {self.dataset.name}, once; later runs read the weights")
        public = bundle.vault.open(budget=float("inf"), seed=self.seed)
        supervision = Supervision.of([public.release(NoPrivacy())], loss_named("plain"))

        def accuracy(classifier: Classifier) -> float:
            predicted = predict(classifier.scores(bundle.test_features), self.seed)
            return int((predicted == bundle.test_labels).sum()) / len(predicted)

        def report(epoch: Epoch, classifier: Classifier) -> None:
            say(
                f"  epoch {epoch.number:>3}/{epoch.total}  loss {epoch.loss:.4f}  "
                f"test {100 * accuracy(classifier):.2f} %  {epoch.seconds:.1f} s"
            )

        model = NetworkModel(network, self.trainer)
        session = Session(self.seed, device, report, say)
        classifier = model.fit(bundle.train_features, supervision, session)
        about = {
            "test_accuracy": f"{accuracy(classifier):.6f}",
            "precision": model.precision_on(device),
        }
        return below_classifier(classifier.network), about


def _check_fit(network: NetworkFactory, public: tuple[int, ...], own: tuple[int, ...]) -> None:
    """Refuses images of another shape now, rather than after the training."""
    with torch.random.fork_rng(devices=[]):
        there, here = (network(num_classes=2, image_shape=shape) for shape in (public, own))
        adopt(here, below_classifier(there))
