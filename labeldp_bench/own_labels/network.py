"""Torch networks on your own features, by the losses and the trainer of the benchmark."""

import copy
import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labeldp_bench.supervision.interfaces import Session
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import Diverged, InputError
from labeldp_bench.training.classifier import NetworkClassifier
from labeldp_bench.training.network_fit import NetworkFit
from labeldp_bench.training.schedules import WarmupLinear
from labeldp_bench.training.trainer import Trainer

BATCH = 256
RATE = 1e-3
WIDTH = 64
DECAY = 1e-2


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


def fit_network(
    network: nn.Module | str, features: Tensor, supervision: Supervision, epochs: int,
    session: Session,
) -> NumbersClassifier:  # fmt: skip
    """Returns a copy of `network`, trained by AdamW with a falling rate.

    Args:
        network: with K outputs; `mlp` is one hidden layer of 64.
        features: float32 (N, ...).
        supervision: what the loss made of the release.
        epochs: >= 1.
        session: seed of first weights and order; device.

    Raises:
        Diverged: the loss is no number.
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
                nn.Linear(WIDTH, supervision.num_classes),
            )  # fmt: skip
        else:
            made = copy.deepcopy(network)
        classifier = NumbersClassifier(
            made, features.mean(0), torch.where(stddev > 0, stddev, 1.0), "float32"
        )
        _check_outputs(classifier, features, supervision.num_classes)
        try:
            trainer.run(NetworkFit(trainer, classifier, supervision, session), features, session)
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
