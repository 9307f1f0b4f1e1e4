"""Torch networks on your own features, trained on what was released."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labeldp.linear import centre_and_spread
from labeldp.losses import Loss
from labeldp.release import Release
from labeldp.supervision import LogitClassifier, check_loss
from labeldp.support import seeding
from labeldp.support.validate import Diverged, InputError

BATCH = 256
RATE = 1e-3
WIDTH = 64
DECAY = 1e-2
LOOKED_UP = 10**8
"""Targets of all rows, N x K, up to which they are kept: 400 MB."""
AT_ONCE = 4096
"""Rows of one forward pass in a prediction."""


@dataclass(frozen=True)
class NetworkOnNumbers(LogitClassifier):
    """A network on numbers of any shape (B, ...), each standardised on its own.

    Attributes:
        network: float32 (B, ...) to logits (B, K).
        mean, stddev: float64 (...), of the training rows.
    """

    network: nn.Module
    mean: Tensor
    stddev: Tensor

    def logits(self, features: Tensor) -> Tensor:
        """Returns the network's outputs for standardised features, float32 (B, K)."""
        return self.network(((features - self.mean) / self.stddev).to(torch.float32))

    def scores(self, features: Tensor) -> Tensor:
        """Returns logits, float32 (m, K)."""
        self.network.eval()
        with torch.no_grad():
            return torch.cat([self.logits(part) for part in features.split(AT_ONCE)])


def fit_network(
    network: nn.Module | str,
    features: Tensor,
    release: Release,
    loss: Loss,
    epochs: int,
    seed: int,
    weights: NDArray[np.float64] | None = None,
) -> NetworkOnNumbers:
    """Returns a copy of `network`, trained by AdamW with a rate that falls linearly to 0.

    Args:
        network: A module with K outputs; `mlp` is one hidden layer of 64.
        features: float64 (N, ...).
        release: Of each row.
        loss: One of `labeldp.losses`.
        epochs: Number of passes over the rows, >= 1.
        seed: Of first weights and order.
        weights: Of the rows, with mean 1, (N,); None: all are 1.

    Raises:
        Diverged: The loss is NaN or infinite.
        InputError: The network does not have K outputs.
    """
    num_classes = len(release.classes)
    mean, stddev = map(torch.from_numpy, centre_and_spread(features.numpy()))
    with seeding.global_stream(seed, torch.device("cpu")):
        made = _mlp(features, num_classes) if isinstance(network, str) else copy.deepcopy(network)
        fitted = NetworkOnNumbers(made.float(), mean, stddev)
        shape = tuple(fitted.scores(features[:1]).shape)
        if shape != (1, num_classes):
            raise InputError(
                f"the network must give {num_classes} scores for each row, got shape {shape} for "
                "one"
            )
        _train(fitted, features, targets_of(release, loss), loss, epochs, weights)
    return fitted


def _mlp(features: Tensor, num_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(features[0].numel(), WIDTH, dtype=torch.float32),
        nn.ReLU(),
        nn.Linear(WIDTH, num_classes, dtype=torch.float32),
    )


def targets_of(release: Release, loss: Loss) -> Callable[[Tensor], Tensor]:
    """Returns what gives the targets of some rows; those of many classes are made for each batch.

    With 10^5 classes the targets of 10^6 rows would fill 400 GB, those of a batch 100 MB.
    """
    if len(release) * len(release.classes) <= LOOKED_UP:
        targets = checked_targets(release, loss)
        return lambda rows: targets[rows]
    return lambda rows: checked_targets(release[rows.numpy()], loss)


def checked_targets(release: Release, loss: Loss) -> Tensor:
    """Returns what `loss` makes of a release; refuses a loss that is no number for each row."""
    targets = loss.targets(release.stored)
    check_loss(loss, targets[:2], len(release.classes))
    return targets


def _train(
    fitted: NetworkOnNumbers,
    features: Tensor,
    targets_of: Callable[[Tensor], Tensor],
    loss: Loss,
    epochs: int,
    weights: NDArray[np.float64] | None,
) -> None:
    """Trains the network in place."""
    steps = epochs * -(-len(features) // BATCH)
    optimizer = torch.optim.AdamW(fitted.network.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    fitted.network.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(features)).split(BATCH):
            # A last batch of one row would end a batch normalisation.
            if len(rows) == 1 and len(features) > 1:
                continue
            losses = loss(fitted.logits(features[rows]), targets_of(rows))
            if weights is not None:
                losses = losses * torch.from_numpy(weights[rows.numpy()])
            value = losses.mean()
            if not bool(value.isfinite()):
                raise Diverged(
                    "the network's loss became NaN or infinite (are features too large?)"
                )
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
