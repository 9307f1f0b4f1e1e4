"""The evidence of a penalty."""

import math

import torch
from scipy.stats import multivariate_normal

from labeldp.losses import LOSSES, Loss
from labeldp.mechanisms import RandomizedResponse
from labeldp_bench.models.penalised import (
    fit_by_evidence,
    log_evidence,
    minima,
    variances_of,
    with_constant,
)


class HalfSquares(Loss):
    """-log of a normal density: the one loss whose evidence is known."""

    name = "half_squares"

    def __call__(self, logits, targets):
        return (logits - targets).square().sum(1) / 2


def test_the_evidence_of_a_normal_model_is_its_density():
    # Without the determinant, or N, the least penalty would always win.
    draws = torch.Generator().manual_seed(0)
    points = torch.randn((500, 6), generator=draws, dtype=torch.float64)
    points = (points - points.mean(0)) * torch.tensor([3.0, 2.0, 1.0, 1.0, 0.5, 0.2])
    signal = points @ torch.randn((6, 1), generator=draws, dtype=torch.float64) / 3
    targets = signal + torch.randn((500, 1), generator=draws, dtype=torch.float64)
    targets -= targets.mean()
    inputs, falling = with_constant(points), [1.0, 0.1, 0.01, 0.001]
    variances, loss = variances_of(inputs), HalfSquares()
    ours, exact = [], []
    for penalty, weights in zip(falling, minima(inputs, targets, loss, 1, falling), strict=True):
        ours.append(log_evidence(inputs, targets, loss, weights, penalty, variances))
        covariance = torch.eye(500) + points @ points.T / (500 * penalty)
        exact.append(multivariate_normal(cov=covariance.numpy()).logpdf(targets[:, 0].numpy()))
    for one, other in zip(ours[1:], exact[1:], strict=True):
        assert math.isclose(one - ours[0], other - exact[0], abs_tol=0.5)
    best = exact.index(max(exact))
    assert 0 < best < 3
    assert fit_by_evidence(inputs, targets, loss, 1, falling).penalty == falling[best]


def test_noise_has_the_largest_penalty_by_evidence():
    # The loss of the fitted examples themselves would choose the smallest.
    draws = torch.Generator().manual_seed(0)
    points = torch.randn((400, 5), generator=draws)
    inputs, penalties = with_constant(points), [1e-4, 0.01, 100.0]
    labels = (points[:, 0] + 0.3 * torch.randn(400, generator=draws) > 0).long()
    assert fit_by_evidence(inputs, labels, LOSSES["plain"], 2, penalties).penalty < 100
    labels = labels[torch.randperm(400, generator=draws)]
    assert fit_by_evidence(inputs, labels, LOSSES["plain"], 2, penalties).penalty == 100


def test_a_search_for_a_loss_that_is_not_convex_begins_with_small_penalties():
    # From the largest down some classes are lost, and 66 % are right instead of 80.
    draws = torch.Generator().manual_seed(0)
    means = 1.5 * torch.randn((30, 20), generator=draws)
    labels = torch.randint(30, (3000,), generator=draws)
    inputs = with_constant(means[labels] + torch.randn((3000, 20), generator=draws))
    mechanism = RandomizedResponse(1.5)
    released = mechanism(labels, 30, draws)
    loss = LOSSES["marginal"]
    targets = mechanism.log_likelihood(released, 30)
    penalties = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003]
    found = fit_by_evidence(inputs, targets, loss, 30, penalties, 20)
    variances = variances_of(inputs)
    falling = zip(penalties, minima(inputs, targets, loss, 30, penalties, 20), strict=True)
    assert found.evidence > max(
        log_evidence(inputs, targets, loss, weights, penalty, variances)
        for penalty, weights in falling
    )
