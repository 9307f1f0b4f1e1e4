"""Softmax regression on what was released, the default of `LabelDPClassifier`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.losses import Loss
from labeldp.support import seeding
from labeldp.support.validate import Diverged
from labeldp_bench.models.penalised import Split, fit_penalised, with_constant

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)
"""To choose from, by the loss on held-out releases."""
FOLDS = 3
LARGE = 3e7
"""Features times classes from which on one held-out third chooses, not three in turn."""
TOLERANCES = (1e-5, 1e-7)


@dataclass(frozen=True)
class LinearModel:
    """Scores that are linear in the features; what a model file holds.

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
    penalties: Sequence[float],
    seed: int,
) -> LinearModel:
    """Returns the model with the least penalised loss (`models.penalised`), in float64.

    Features are standardised first, so that the penalty does not depend on their units. Releases
    are few more often than not, so that each third of them chooses the penalty in turn.

    Args:
        features: (N, d).
        targets: what `loss` made of the release, first axis N.
        loss: of the benchmark, see `labeldp.losses`.
        num_classes: K.
        penalties: > 0; one alone is taken as it is.
        seed: of the held-out parts.

    Raises:
        Diverged: the weights are no numbers.
    """
    mean, stddev = features.mean(0), features.std(0)
    stddev = np.where(stddev > 1e-12 * np.maximum(1, np.abs(mean)), stddev, 1.0)
    inputs = with_constant(torch.from_numpy((features - mean) / stddev))
    splits = _thirds(len(inputs), seed) if len(inputs) >= 2 * FOLDS else []
    if inputs.numel() * num_classes > LARGE:
        splits = splits[:1]
    weights, penalty = fit_penalised(
        inputs, targets, loss, num_classes, penalties, splits, TOLERANCES, along_path=True
    )
    if not bool(weights.isfinite().all()):
        raise Diverged("the linear model's weights are NaN or infinite (are features too large?)")
    coefficients = weights[:-1].T.numpy() / stddev
    return LinearModel(coefficients, weights[-1].numpy() - coefficients @ mean, penalty)


def _thirds(count: int, seed: int) -> list[Split]:
    """Returns each third as the one that chooses, and the two others as those that fit."""
    order = torch.randperm(count, generator=seeding.generator(seed, "train", "held_out"))
    parts = order.tensor_split(FOLDS)
    return [(torch.cat([other for other in parts if other is not part]), part) for part in parts]
