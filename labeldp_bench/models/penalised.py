"""Linear scores with the least penalised loss, by torch's L-BFGS, and which penalty to take."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from labeldp.losses import (
    BinaryCrossEntropy,
    Loss,
    PlainCrossEntropy,
    SoftLabelCrossEntropy,
    SoftmaxOnBits,
)

ITERATIONS = 30
"""Of L-BFGS for each penalty, at most; each fit starts from that of the penalty before."""
TOLERANCES = (1e-7, 1e-9)
"""Of the gradient and of a step, torch's own."""
AT_ONCE = 2**20
"""Examples times classes of one part of a loss: the next part uses its 8 MB of memory again.

That of all examples at once is cleared again for each array: 2,000 classes took 6 times as long."""
CONVEX = BinaryCrossEntropy, PlainCrossEntropy, SoftLabelCrossEntropy, SoftmaxOnBits
"""Losses with one minimum, whatever the fit starts from."""
Split = tuple[Tensor, Tensor]
"""Positions of the examples that fit and of those that choose."""


def with_constant(points: Tensor) -> Tensor:
    """Returns the points with a column of ones, (n, d + 1), for the bias."""
    return torch.cat([points, torch.ones_like(points[:, :1])], 1)


def fit_penalised(
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    num_classes: int,
    penalties: Sequence[float],
    splits: Sequence[Split],
    iterations: int = ITERATIONS,
) -> tuple[Tensor, float]:
    """Returns weights and the penalty that was chosen.

    Weights minimise the mean loss plus penalty / 2 times their squares, over all examples. The
    penalty is the one with the least loss on held-out examples, over all splits. What is compared
    there are releases, so that no true label is needed.

    Args:
        inputs: (n, d + 1), the last column of ones (`with_constant`); gives precision and device.
        targets: what `loss` made of the releases, first axis n; on the same device.
        loss: of the benchmark.
        num_classes: K.
        penalties: > 0, at least one; one alone is taken as it is.
        splits: by which penalties are compared; none: the largest penalty is taken.
        iterations: of L-BFGS for each penalty, at most.

    Returns:
        weights (d + 1, K), the last row is the bias, which has no penalty; the penalty.
    """
    falling = sorted(penalties, reverse=True)
    losses, fitted = [0.0] * len(falling), [_zeros(inputs, num_classes)] * len(falling)
    for kept, out in splits if len(falling) > 1 else ():
        parts = inputs[kept], targets[kept], inputs[out], targets[out]
        path = minima(*parts[:2], loss, num_classes, falling, iterations)
        for number, weights in enumerate(path):
            losses[number] += sum(float(share) for _, share, _ in _parts(*parts[2:], loss, weights))
            fitted[number] = weights
    best = losses.index(min(losses))
    weights = _minimum(inputs, targets, loss, falling[best], fitted[best], iterations)
    return weights, falling[best]


class Likeliest(NamedTuple):
    """A fit and how probable it makes the releases.

    Attributes:
        evidence: logarithm, see `log_evidence`.
        weights: (d + 1, K); the last row is the bias.
        penalty: that was chosen.
    """

    evidence: float
    weights: Tensor
    penalty: float


def fit_by_evidence(
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    num_classes: int,
    penalties: Sequence[float],
    iterations: int = ITERATIONS,
) -> Likeliest:
    """Returns the fit with the penalty of the largest evidence; no example is held out.

    A convex loss has its penalties tried from the largest down, where a fit takes the fewest steps;
    any other from the smallest up, because a large penalty first can lead to a minimum that lost
    some classes. Penalties beyond one that is worse than the one before are not tried. Arguments
    are those of `fit_penalised`.
    """
    variances = variances_of(inputs)
    ordered = sorted(penalties, reverse=type(loss) in CONVEX)
    best = Likeliest(-math.inf, _zeros(inputs, num_classes), ordered[0])
    path = minima(inputs, targets, loss, num_classes, ordered, iterations)
    for penalty, weights in zip(ordered, path, strict=True):
        evidence = log_evidence(inputs, targets, loss, weights, penalty, variances)
        if evidence < best.evidence:
            break
        best = Likeliest(evidence, weights, penalty)
    return best


def minima(
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    num_classes: int,
    ordered: Sequence[float],
    iterations: int = ITERATIONS,
) -> Iterator[Tensor]:
    """Yields the weights (d + 1, K) of the least penalised mean loss for one penalty after another.

    Each fit starts from the one before, the first from 0; arguments are those of `fit_penalised`.
    """
    weights = _zeros(inputs, num_classes)
    for penalty in ordered:
        weights = _minimum(inputs, targets, loss, penalty, weights, iterations)
        yield weights


def log_evidence(
    inputs: Tensor,
    targets: Tensor,
    loss: Loss,
    weights: Tensor,
    penalty: float,
    variances: Tensor,
) -> float:
    """Returns the log probability of the releases, up to what all penalties share.

    The penalty is a normal prior of the weights. These are integrated out around the fit, where
    the curvature is taken to be the features' covariance times the mean square of the loss's
    gradient in the scores. No release is held out, and one fit is enough.

    Source: MacKay (1992), "The evidence framework applied to classification networks"; the
    curvature as in Ritter, Botev, Barber (2018), "A scalable Laplace approximation".

    Args:
        inputs: (n, d + 1), the last column of ones.
        targets: what `loss` made of the releases, first axis n.
        loss: -log of the probability of a release, for the result to be what it is called.
        weights: of the least penalised mean loss, (d + 1, K).
        penalty: > 0.
        variances: of the inputs in each of their directions, (d,).
    """
    size = penalty / 2 * float(weights[:-1].square().sum())
    squares = weights.new_zeros((weights.shape[1],) * 2)
    for _, share, slopes in _parts(inputs, targets, loss, weights):
        size += float(share)
        squares.addmm_(slopes.T, slopes, alpha=1 / len(inputs))
    if not squares.isfinite().all():
        return math.nan
    curvature = torch.linalg.eigvalsh(squares.double()).clamp_min(0)
    determinant = torch.log1p(variances.double()[:, None] * curvature / penalty).sum()
    return -len(inputs) * size - float(determinant) / 2


def variances_of(inputs: Tensor) -> Tensor:
    """Returns the variance of the inputs (n, d + 1) in each of their directions, float64 (d,)."""
    covariance = torch.cov(inputs[:, :-1].T, correction=0)
    return torch.linalg.eigvalsh(covariance.double()).clamp_min(0)


def _zeros(inputs: Tensor, num_classes: int) -> Tensor:
    return inputs.new_zeros((inputs.shape[1], num_classes))


def _minimum(
    inputs: Tensor,
    targets: Tensor,
    loss_of: Loss,
    penalty: float,
    start: Tensor,
    iterations: int,
) -> Tensor:
    """Returns the weights of the least penalised mean loss near `start`."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=iterations,
        tolerance_grad=TOLERANCES[0],
        tolerance_change=TOLERANCES[1],
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        point = weights.detach()
        gradient = penalty * point
        gradient[-1] = 0
        loss = penalty / 2 * point[:-1].square().sum()
        for rows, share, slopes in _parts(inputs, targets, loss_of, point):
            loss += share
            # In this order the product of few classes takes a CPU a tenth of the time.
            gradient += (slopes.T @ rows).T / len(inputs)
        weights.grad = gradient
        return loss

    optimizer.step(objective)
    return weights.detach()


def _parts(
    inputs: Tensor, targets: Tensor, loss_of: Loss, weights: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields some rows after the other: their inputs, what they add to the mean loss, and slopes.

    Slopes are each row's gradient of its loss in the scores, (m, K).
    """
    size = max(1, AT_ONCE // weights.shape[1])
    by_class = weights.T.contiguous()  # as in `objective`: the order decides the time
    for rows, own in zip(inputs.split(size), targets.split(size), strict=True):
        scores = nn.functional.linear(rows, by_class).requires_grad_()
        with torch.enable_grad():
            loss = loss_of(scores, own).sum()
        (slopes,) = torch.autograd.grad(loss, scores)
        yield rows, loss.detach() / len(inputs), slopes
