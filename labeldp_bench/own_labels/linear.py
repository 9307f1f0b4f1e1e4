"""Softmax regression on what was released, by any loss; the default of `LabelDPClassifier`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp_bench.supervision.losses import Loss
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import Diverged

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)
"""To choose from, by the loss on held-out releases; each fit starts from the one before."""
FOLDS = 3
LARGE = 3e7
"""Features times classes from which on one held-out third chooses, not three in turn."""
ITERATIONS = 30
"""Of L-BFGS, at most."""


@dataclass(frozen=True)
class LinearModel:
    """Scores that are linear in the features.

    Attributes:
        coefficients: float64 (K, d), for features as they are given.
        intercept: float64 (K,).
        penalty: that held-out releases chose.
    """

    coefficients: NDArray[np.float64]
    intercept: NDArray[np.float64]
    penalty: float

    def probabilities(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the softmax of the scores, (m, K)."""
        scores = torch.from_numpy(features @ self.coefficients.T + self.intercept)
        return scores.softmax(1).numpy()


def fit_linear(
    features: NDArray[np.float64],
    targets: Tensor,
    loss: Loss,
    num_classes: int,
    penalties: Sequence[float] = PENALTIES,
    seed: int = 0,
) -> LinearModel:
    """Returns the model with the least mean loss plus penalty / 2 times its squared weights.

    Features are standardised first, so that the penalty does not depend on their units. The penalty
    is the one with the least loss on releases that were held out; no true label is needed.

    Args:
        features: (N, d).
        targets: what `loss` made of the release, first axis N.
        loss: of the benchmark, see `labeldp_bench.supervision.losses`.
        num_classes: K.
        penalties: > 0; one alone is taken as it is.
        seed: of the held-out parts.

    Raises:
        Diverged: the weights are no numbers.
    """
    mean, stddev = features.mean(0), features.std(0)
    stddev = np.where(stddev > 1e-12 * np.maximum(1, np.abs(mean)), stddev, 1.0)
    inputs = torch.from_numpy((features - mean) / stddev)
    falling = sorted(penalties, reverse=True)
    chosen = falling[0]
    if len(falling) > 1 and len(inputs) >= 2 * FOLDS:
        chosen = _chosen(inputs, targets, loss, num_classes, falling, seed)
    weights = _zeros(inputs, num_classes)
    for penalty in [each for each in falling if each >= chosen]:  # the same path as when choosing
        weights = _minimum(inputs, targets, loss, penalty, weights)
    if not bool(weights.isfinite().all()):
        raise Diverged("the linear model's weights are NaN or infinite (are features too large?)")
    coefficients = weights[:-1].T.numpy() / stddev
    return LinearModel(coefficients, weights[-1].numpy() - coefficients @ mean, chosen)


def _chosen(
    inputs: Tensor, targets: Tensor, loss: Loss, num_classes: int, falling: list[float], seed: int
) -> float:
    """Returns the penalty with the least loss on held-out releases."""
    order = torch.randperm(len(inputs), generator=seeding.generator(seed, "train", "held_out"))
    parts = order.tensor_split(FOLDS)
    held_out = parts[:1] if inputs.numel() * num_classes > LARGE else parts
    total = torch.zeros(len(falling), dtype=torch.float64)
    for part in held_out:
        fitted = torch.ones(len(inputs), dtype=torch.bool)
        fitted[part] = False
        weights = _zeros(inputs, num_classes)
        for number, penalty in enumerate(falling):
            weights = _minimum(inputs[fitted], targets[fitted], loss, penalty, weights)
            total[number] += loss(_scores(inputs[part], weights), targets[part]).sum()
    return falling[int(total.argmin())]


def _zeros(inputs: Tensor, num_classes: int) -> Tensor:
    return torch.zeros((inputs.shape[1] + 1, num_classes), dtype=torch.float64)


def _scores(inputs: Tensor, weights: Tensor) -> Tensor:
    return inputs @ weights[:-1] + weights[-1]


def _minimum(inputs: Tensor, targets: Tensor, loss: Loss, penalty: float, start: Tensor) -> Tensor:
    """Returns the weights, float64 (d + 1, K), of the least penalised loss near `start`."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=ITERATIONS,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        value = loss(_scores(inputs, weights), targets).mean()
        value = value + penalty / 2 * weights[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(objective)
    return weights.detach()
