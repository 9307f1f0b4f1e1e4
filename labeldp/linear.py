"""Softmax regression on what was released; releases choose the penalty."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.losses import Loss
from labeldp.support import seeding
from labeldp.support.validate import Diverged


def held_out_rows(count: int, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Returns which of `count` examples fit and which choose, int64; one at least in each.

    Args:
        count: number of examples, >= 2.
        share: of those that choose, in (0, 1).
        seed: of the run.
    """
    order = torch.randperm(count, generator=seeding.generator(seed, "train", "held_out"))
    kept_out = min(max(1, round(share * count)), count - 1)
    return order[kept_out:], order[:kept_out]


ITERATIONS = 30
"""Of L-BFGS for each penalty, at most; each fit starts from that of the next larger penalty."""
TOLERANCES = (1e-7, 1e-9)
"""Of the gradient and of a step, torch's own."""
AT_ONCE = 2**20
"""Examples times classes of one part of a loss: the next part uses its 8 MB of memory again.

That of all examples at once is cleared again for each array: 2,000 classes took 6 times as long."""
Split = tuple[Tensor, Tensor]
"""Positions of the examples that fit and of those that choose."""


def with_constant(points: Tensor) -> Tensor:
    """Returns the points with a column of ones, (n, d + 1), for the bias."""
    return torch.cat([points, torch.ones((len(points), 1), dtype=points.dtype)], 1)


def fit_penalised(
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    num_classes: int,
    penalties: Sequence[float],
    splits: Sequence[Split],
    tolerances: tuple[float, float] = TOLERANCES,
    along_path: bool = False,
) -> tuple[Tensor, float]:
    """Returns weights and the penalty that was chosen.

    Weights minimise the mean loss plus penalty / 2 times their squares, over all examples. The
    penalty is the one with the least loss on held-out examples, over all splits. What is compared
    there are releases, so that no true label is needed.

    Args:
        inputs: (n, d + 1), the last column of ones (`with_constant`); gives the precision.
        targets: what `loss` made of the releases, first axis n.
        loss: of the benchmark.
        num_classes: K.
        penalties: > 0, at least one; one alone is taken as it is.
        splits: by which penalties are compared; none: the largest penalty is taken.
        tolerances: of gradient and step, where L-BFGS ends.
        along_path: the last fit comes from those of larger penalties to all examples, not from the
            last split's fit. The marginal likelihood has several minima; at few releases this way
            finds better ones (digits at eps=1: .64 right, else .56).

    Returns:
        weights (d + 1, K), the last row is the bias, which has no penalty; the penalty.
    """
    zeros = torch.zeros((inputs.shape[1], num_classes), dtype=inputs.dtype)
    falling = sorted(penalties, reverse=True)
    losses, fitted = [0.0] * len(falling), [zeros] * len(falling)
    if len(falling) > 1:
        for kept, out in splits:
            weights = zeros
            for number, penalty in enumerate(falling):
                weights = _minimum(inputs[kept], targets[kept], loss, penalty, weights, tolerances)
                shares = _shares_of_mean(inputs[out], targets[out], loss, weights)
                losses[number] += float(sum(shares))
                fitted[number] = weights
    best = losses.index(min(losses))
    weights = zeros if along_path else fitted[best]
    for penalty in falling[: best + 1] if along_path else [falling[best]]:
        weights = _minimum(inputs, targets, loss, penalty, weights, tolerances)
    return weights, falling[best]


def _minimum(
    inputs: Tensor,
    targets: Tensor,
    loss_of: Loss,
    penalty: float,
    start: Tensor,
    tolerances: tuple[float, float],
) -> Tensor:
    """Returns the weights of the least penalised mean loss near `start`."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=ITERATIONS,
        tolerance_grad=tolerances[0],
        tolerance_change=tolerances[1],
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        loss = penalty / 2 * weights[:-1].square().sum()
        loss.backward()
        for share in _shares_of_mean(inputs, targets, loss_of, weights):
            share.backward()
            loss = loss.detach() + share.detach()
        return loss

    optimizer.step(objective)
    return weights.detach()


def _shares_of_mean(
    inputs: Tensor, targets: Tensor, loss_of: Loss, weights: Tensor
) -> Iterator[Tensor]:
    """Yields what some examples after the other add to the mean loss of all."""
    size = max(1, AT_ONCE // weights.shape[1])
    for rows, own in zip(inputs.split(size), targets.split(size), strict=True):
        yield loss_of(rows @ weights, own).sum() / len(inputs)


PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)
"""To choose from, by the loss on held-out releases."""
FOLDS = 3
LARGE = 3e7
"""Features times classes from which on one held-out third chooses, not three in turn."""
FINE_TOLERANCES = (1e-5, 1e-7)


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
    """Returns the model with the least penalised loss (`fit_penalised`), in float64.

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
        inputs, targets, loss, num_classes, penalties, splits, FINE_TOLERANCES, along_path=True
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
