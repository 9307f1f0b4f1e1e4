"""Torch networks on your own features, by the losses and the trainer of the benchmark."""

import copy
import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labeldp.losses import Loss
from labeldp.release import Release
from labeldp.support import seeding
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.supervision.interfaces import Session
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.training.augment import Mixing
from labeldp_bench.training.classifier import NetworkClassifier
from labeldp_bench.training.network_fit import NetworkFit, objective
from labeldp_bench.training.schedules import WarmupLinear
from labeldp_bench.training.trainer import Trainer

BATCH = 256
RATE = 1e-3
WIDTH = 64
DECAY = 1e-2
LOOKED_UP = 10**8
"""Targets of single classes, N x K, up to which all are held: 400 MB."""


@dataclass(frozen=True)
class NumbersClassifier(NetworkClassifier):
    """A network on numbers of any shape (B, ...), each standardised on its own.

    Attributes:
        network: float32 (B, ...) to logits (B, K).
        mean, stddev: float32 (...), of the training rows.
        precision: `float32`.
    """

    def normalise(self, images: Tensor) -> Tensor:
        """Returns (numbers - mean) / stddev, float32 (B, ...)."""
        return (images.to(torch.float32) - self.mean) / self.stddev


class ManyClassesFit(NetworkFit):
    """A fit that makes the targets of each batch from its releases.

    With 10^5 classes the targets of 10^6 rows would fill 400 GB, those of a batch 100 MB.

    Args:
        trainer, classifier, session: as `NetworkFit`.
        release: of each row.
        loss: of the benchmark.
    """

    def __init__(
        self, trainer: Trainer, classifier: NetworkClassifier, release: Release, loss: Loss,
        session: Session,
    ) -> None:  # fmt: skip
        none = torch.empty((0, len(release.classes)))
        rows = torch.arange(len(release))
        super().__init__(trainer, classifier, Supervision(rows, none, none.bool(), loss), session)
        self.release = release

    def step(self, batch: Tensor, rows: Tensor, mixing: Mixing | None) -> None:
        """Learns from one batch of rows, one view each."""
        own = Supervision.of([self.release[rows.numpy()].vaulted], self.supervision.loss)
        self._learn(objective, batch, own.targets, own.most_likely_labels, *(mixing or ()))


def fit_network(
    network: nn.Module | str, features: Tensor, release: Release, loss: Loss, epochs: int,
    session: Session,
) -> NumbersClassifier:  # fmt: skip
    """Returns a copy of `network`, trained by AdamW with a falling rate.

    Args:
        network: with K outputs; `mlp` is one hidden layer of 64.
        features: float32 (N, ...).
        release: of each row.
        loss: of the benchmark.
        epochs: >= 1.
        session: seed of first weights and order; device.

    Raises:
        Diverged: the loss is NaN or infinite.
        InputError: the network has not K outputs.
    """
    trainer = Trainer(
        epochs=epochs, batch_size=BATCH, selection="last", precision="float32",
        optimizer=functools.partial(torch.optim.AdamW, lr=RATE, weight_decay=DECAY),
        schedule=WarmupLinear(warmup=0.0),
    )  # fmt: skip
    stddev = features.std(0, correction=0)
    with seeding.global_stream(session.seed, session.device):
        if isinstance(network, str):
            made: nn.Module = nn.Sequential(
                nn.Flatten(), nn.Linear(features[0].numel(), WIDTH), nn.ReLU(),
                nn.Linear(WIDTH, len(release.classes)),
            )  # fmt: skip
        else:
            made = copy.deepcopy(network)
        classifier = NumbersClassifier(
            made, features.mean(0), torch.where(stddev > 0, stddev, 1.0), "float32"
        )
        _check_outputs(classifier, features, len(release.classes))
        if len(release) * len(release.classes) <= LOOKED_UP:
            supervision = Supervision.of([release.vaulted], loss)
            fit = NetworkFit(trainer, classifier, supervision, session)
        else:
            fit = ManyClassesFit(trainer, classifier, release, loss, session)
        try:
            trainer.run(fit, features, session)
        except Diverged:
            raise Diverged(
                "the network's loss became NaN or infinite (are features too large?)"
            ) from None
    return classifier


def _check_outputs(classifier: NumbersClassifier, features: Tensor, num_classes: int) -> None:
    with torch.no_grad():
        classifier.network.eval()
        shape = tuple(classifier.network(classifier.normalise(features[:1])).shape)
    if shape != (1, num_classes):
        raise InputError(
            f"the network must give {num_classes} scores for each row, got shape {shape} for one"
        )
