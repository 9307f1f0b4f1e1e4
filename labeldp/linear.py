"""Softmax regression on what was released; releases choose the penalty."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from labeldp.losses import Loss, MarginalLikelihood
from labeldp.support import seeding
from labeldp.support.validate import Diverged

Rows = NDArray[np.floating]
Value = tuple[float, Rows]
"""A loss and its gradient."""


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


PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)
"""To choose from, by the loss on held-out releases."""
FOLDS = 3
LARGE = 3e6
"""Features times classes of all rows above which one held-out third chooses, in float32.

Up to there each third chooses in turn, in float64."""
ITERATIONS = 30
"""Of L-BFGS for each penalty, at most; each fit starts from that of the next larger penalty."""
SMALLEST_SPREAD = 1e-14
"""Of a column, as a share of its mean: below are the last two digits, which sums round away."""
TOLERANCES = {"gtol": 1e-5, "ftol": 1e-8}
AT_ONCE = 2**17
"""Scores that are held at one time: 1 MB, which stays in the processor's cache."""


def centre_and_spread(
    features: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns mean and standard deviation of each column, float64 (...); 1 for a constant one.

    Whatever the column's unit and origin are: 10^-200 has no square, and of seconds since 1970 only
    float64 knows the digits that differ. Both must be gone before anything is made float32.

    Args:
        features: (N, ...).
        weights: of the rows, >= 0; None: all are 1.
    """
    if weights is not None:
        features, weights = features[weights > 0], weights[weights > 0]
    first = features[0]
    steps = features - first  # exactly 0 in a constant column
    largest = np.abs(steps).max(0)
    largest[largest == 0] = 1.0
    steps /= largest
    mean = np.average(steps, 0, weights)
    steps -= mean
    stddev = largest * np.sqrt(np.average(np.square(steps), 0, weights))
    centre = first + largest * mean
    is_rounding = stddev <= SMALLEST_SPREAD * np.abs(centre)
    return centre, np.where(is_rounding | (stddev == 0), 1.0, stddev)


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
    row_weights: NDArray[np.float64] | None = None,
) -> LinearModel:
    """Returns the model with the least mean loss plus penalty / 2 times its squared weights.

    Features are standardised first, so that the penalty does not depend on their units. The penalty
    is the one with the least loss on held-out releases. These are few more often than not, so that
    each third of them chooses in turn. The fit to all of them comes from those with larger
    penalties: the marginal likelihood has several minima, and at few releases this way finds better
    ones (digits at eps=1: .64 right, else .56). Of many rows it comes from the fit to two thirds.

    Args:
        features: (N, d).
        targets: what `loss` made of the release, first axis N.
        loss: of the benchmark, see `labeldp.losses`.
        num_classes: K.
        penalties: >= 0; one alone is taken as it is.
        seed: of the held-out parts.
        row_weights: >= 0, (N,); None: all are 1.

    Raises:
        Diverged: the weights are no numbers.
    """
    size = len(features)
    order = torch.randperm(size, generator=seeding.generator(seed, "train", "held_out"))
    weights = np.ones(size) if row_weights is None else row_weights[order.numpy()]
    mean, stddev = centre_and_spread(features, row_weights)
    shape = features.shape[1] + 1, size
    is_large = math.prod(shape) * num_classes > LARGE
    # Rows are the last axis: sums over classes then go along memory.
    inputs = np.ones(shape, np.float32 if is_large else np.float64)
    inputs[:-1] = ((features - mean) / stddev)[order.numpy()].T
    losses_of = (_Marginal if type(loss) is MarginalLikelihood else _ByAutograd)(
        inputs, targets[order], loss, weights
    )
    parts = [slice(part[0], part[-1] + 1) for part in np.array_split(np.arange(size), FOLDS)
             if len(part)]  # fmt: skip
    turns = [] if len(penalties) == 1 or size < 2 * FOLDS else parts
    if is_large:
        turns = turns[:1]
    falling = sorted(penalties, reverse=True)
    start: Rows = np.zeros((num_classes, len(inputs)))
    held_out, path = np.zeros(len(falling)), [start]
    for out in turns:
        rest, path = [part for part in parts if part is not out], [start]
        for number, penalty in enumerate(falling):
            path.append(_minimum(losses_of, rest, penalty, path[-1]))
            held_out[number] += losses_of([out], path[-1])[0]
    best, point = int(held_out.argmin()), start
    if len(turns) == 1:  # so many rows that two thirds of them find the minimum of all
        point = _minimum(losses_of, parts, falling[best], path[best + 1])
    else:
        for penalty in falling[: best + 1]:
            point = _minimum(losses_of, parts, penalty, point)
    if not np.isfinite(point).all():
        raise Diverged("the linear model's weights are NaN or infinite (are features too large?)")
    coefficients = point[:, :-1] / stddev
    return LinearModel(coefficients, point[:, -1] - coefficients @ mean, falling[best])


def _minimum(
    losses_of: "_ByAutograd", rows: Sequence[slice], penalty: float, start: Rows
) -> Rows:  # fmt: skip
    """Returns the weights (K, d + 1) of the least penalised mean loss near `start`."""

    def objective(flat: Rows) -> Value:
        point = flat.reshape(start.shape)
        value, gradient = losses_of(rows, point)
        gradient[:, :-1] += penalty * point[:, :-1]  # the bias has no penalty
        return value + penalty / 2 * float(np.square(point[:, :-1]).sum()), gradient.ravel()

    options: Any = {"maxiter": ITERATIONS, **TOLERANCES}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(start.shape)


class _ByAutograd:
    """The mean loss over some rows, and its gradient; by torch, for any loss.

    Args:
        inputs: (d + 1, N), float64 or float32, which scores and slopes have too.
        targets: what the loss made of the releases, first axis N.
        loss: of the benchmark.
        weights: of the rows, float64 (N,).
    """

    def __init__(self, inputs: Rows, targets: Tensor, loss: Loss, weights: Rows) -> None:
        self.inputs, self.targets, self.loss, self.weights = inputs, targets, loss, weights

    def __call__(self, parts: Sequence[slice], point: Rows) -> Value:
        """Returns the mean loss of the rows in `parts` at `point`, (K, d + 1), and its gradient."""
        value, gradient = 0.0, np.zeros_like(point)
        step = max(1, AT_ONCE // len(point))
        for part in parts:
            for first in range(part.start, part.stop, step):
                rows = slice(first, min(first + step, part.stop))
                inputs = self.inputs[:, rows]
                losses, slopes = self.of_scores(point.astype(inputs.dtype) @ inputs, rows)
                value += float(losses @ self.weights[rows])  # summed in float64
                slopes *= self.weights[rows]
                gradient += slopes @ inputs.T
        total = sum(float(self.weights[part].sum()) for part in parts)
        return value / total, gradient / total

    def of_scores(self, scores: Rows, rows: slice) -> tuple[Rows, Rows]:
        """Returns each row's loss, (n,), and its gradient in the scores, (K, n)."""
        logits = torch.from_numpy(scores.T).requires_grad_()
        losses = self.loss(logits, self.targets[rows])
        (slopes,) = torch.autograd.grad(losses.sum(), logits)
        return losses.detach().double().numpy(), slopes.numpy().T


class _Marginal(_ByAutograd):
    """The marginal likelihood, several times as fast: one exponential for each score."""

    def __init__(self, inputs: Rows, targets: Tensor, loss: Loss, weights: Rows) -> None:
        super().__init__(inputs, targets, loss, weights)
        self.likelihood = np.exp(targets.numpy().T.astype(inputs.dtype, order="C"))

    def of_scores(self, scores: Rows, rows: slice) -> tuple[Rows, Rows]:
        """Returns each row's loss, (n,), and its gradient in the scores, (K, n).

        With e = exp(score) and l the likelihood: log sum e - log sum e l, and the prediction
        e / sum e less the posterior e l / sum e l.
        """
        # NumPy's exp takes twice as long.
        shares = torch.from_numpy(scores - scores.max(0)).exp_().numpy()
        joint = shares * self.likelihood[:, rows]
        total, both = shares.sum(0), joint.sum(0)
        if not both.min() > 1e30 * np.finfo(both.dtype).tiny:
            # A score is far below the largest one: only logarithms can say.
            return super().of_scores(scores, rows)
        shares *= 1 / total
        joint *= 1 / both
        shares -= joint
        return np.log(total / both), shares
