"""Linear scores with the least penalised loss, by torch's L-BFGS; held-out examples choose."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from labeldp.losses import Loss

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
                weights = _minimum(inputs[kept], targets[kept], loss, penalty, weights)
                shares = _shares_of_mean(inputs[out], targets[out], loss, weights)
                losses[number] += float(sum(shares))
                fitted[number] = weights
    best = losses.index(min(losses))
    weights = _minimum(inputs, targets, loss, falling[best], fitted[best])
    return weights, falling[best]


def _minimum(
    inputs: Tensor,
    targets: Tensor,
    loss_of: Loss,
    penalty: float,
    start: Tensor,
) -> Tensor:
    """Returns the weights of the least penalised mean loss near `start`."""
    weights = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weights],
        max_iter=ITERATIONS,
        tolerance_grad=TOLERANCES[0],
        tolerance_change=TOLERANCES[1],
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
