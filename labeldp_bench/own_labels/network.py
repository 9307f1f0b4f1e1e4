"""Torch networks on your own features, by the losses of the benchmark."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labeldp_bench.own_labels.release import Release
from labeldp_bench.supervision.losses import Loss
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import Diverged, InputError

BATCH = 256
RATE = 1e-3
WIDTH = 64
DECAY = 1e-2
LOOKED_UP = 10**8
"""Targets of single classes, N x K, up to which all are held: 400 MB."""


class NetworkOnFeatures:
    """A network with the scale of its inputs.

    Args:
        network: float32 (B, ...) to logits (B, K); evaluation mode.
        mean, stddev: of the features, one for each.
    """

    def __init__(self, network: nn.Module, mean: Tensor, stddev: Tensor) -> None:
        self.network, self.mean, self.stddev = network, mean, stddev

    def scaled(self, features: NDArray) -> Tensor:
        """Returns standardised features, float32."""
        return (torch.from_numpy(features).float() - self.mean) / self.stddev

    @torch.inference_mode()
    def probabilities(self, features: NDArray) -> NDArray[np.float64]:
        """Returns the softmax of the logits, (m, K)."""
        self.network.eval()
        logits = [self.network(part) for part in self.scaled(features).split(4096)]
        return torch.cat(logits).double().softmax(1).numpy()


def fit_network(
    network: nn.Module | str, features: NDArray, targets: Callable[[Tensor], Tensor], loss: Loss,
    num_classes: int, epochs: int, seed: int,
) -> NetworkOnFeatures:  # fmt: skip
    """Returns a copy of `network`, trained by AdamW with a falling rate.

    Args:
        network: with K outputs; `mlp` is one hidden layer of 64.
        features: (N, ...).
        targets: returns what `loss` makes of the release of some rows, int64 (B,); see
            `targets_by_row`.
        loss: of the benchmark.
        num_classes: K.
        epochs: >= 1.
        seed: of first weights and order.

    Raises:
        Diverged: the loss is no number.
        InputError: the network has not K outputs.
    """
    inputs = torch.from_numpy(features).float()
    stddev = inputs.std(0, correction=0)
    with seeding.global_stream(seed, torch.device("cpu")):
        if isinstance(network, str):
            made: nn.Module = nn.Sequential(
                nn.Flatten(), nn.Linear(inputs[0].numel(), WIDTH), nn.ReLU(),
                nn.Linear(WIDTH, num_classes),
            )  # fmt: skip
        else:
            made = copy.deepcopy(network)
        model = NetworkOnFeatures(made, inputs.mean(0), torch.where(stddev > 0, stddev, 1.0))
        inputs = model.scaled(features)
        _check_outputs(made, inputs, num_classes)
        steps = epochs * -(-len(inputs) // BATCH)
        optimizer = torch.optim.AdamW(made.parameters(), lr=RATE, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        made.train()
        for _ in range(epochs):
            for rows in torch.randperm(len(inputs)).split(BATCH):
                optimizer.zero_grad()
                value = loss(made(inputs[rows]), targets(rows)).mean()
                value.backward()
                optimizer.step()
                schedule.step()
            if not bool(value.isfinite()):
                raise Diverged(
                    "the network's loss became NaN or infinite (are features too large?)"
                )
    return model


def targets_by_row(release: Release, loss: Loss) -> Callable[[Tensor], Tensor]:
    """Returns the targets of rows: looked up, or computed for each batch where they are too many.

    With 10^5 classes the likelihoods of 10^6 rows would fill 400 GB, those of a batch 100 MB.
    """
    if len(release) * len(release.classes) <= LOOKED_UP:
        return loss.targets(release.vaulted).__getitem__
    return lambda rows: loss.targets(release[rows.numpy()].vaulted)


def _check_outputs(network: nn.Module, inputs: Tensor, num_classes: int) -> None:
    with torch.no_grad():
        network.eval()
        shape = tuple(network(inputs[:1]).shape)
    if shape != (1, num_classes):
        raise InputError(
            f"the network must give {num_classes} scores for each row, got shape {shape} for one"
        )
