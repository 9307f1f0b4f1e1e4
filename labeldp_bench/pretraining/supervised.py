"""Pre-training on the labels of a public data set."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labeldp.losses import loss_named
from labeldp.mechanisms import NoPrivacy
from labeldp.supervision import Supervision, predict
from labeldp.support.progress import say
from labeldp.support.validate import check_made
from labeldp_bench.data.images import ImageData
from labeldp_bench.interfaces import (
    Classifier,
    Epoch,
    FitCheckpoint,
    NetworkFactory,
    Session,
)
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.pretraining.weights import TrainedRecipe, Weights
from labeldp_bench.training.fit import adopt, below_classifier


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
        classifier = model.fit(bundle.train_features, supervision, session)
        notes = {"test_accuracy": f"{accuracy(classifier):.6f}"}
        return Weights(below_classifier(classifier.network), notes)


def _check_shapes(network: NetworkFactory, public: Tensor, own: Tensor) -> None:
    """Refuses images of another shape now, rather than after the training."""
    with torch.random.fork_rng(devices=[]):
        of_public, of_own = (
            network(num_classes=2, image_shape=tuple(images.shape[1:])) for images in (public, own)
        )
    adopt(of_own, below_classifier(of_public))
