"""Bounds of vector_approximation against draws, mechanisms and numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms import (
    AdditiveLaplace,
    BlockRR,
    OptimalMechanism,
    RandomizedResponse,
    RandomizedResponseWithPrior,
)
from labeldp.support import seeding
from papers.vector_approximation.bounds import RingProblem, retention_bound, soft_label


def problem(**changes):
    values = dict(eps=1.0, num_classes=40, sigma=0.05, num_examples=10_000, k=200, delta=0.05)
    return RingProblem(**(values | changes))


@pytest.mark.parametrize("eps", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("num_classes", [2, 5, 8])
def test_no_channel_keeps_more_labels_than_the_tight_bound_and_rr_attains_it(eps, num_classes):
    # The dashed line would be no bound, or one that could be lower.
    printed, tight = retention_bound(eps, num_classes)
    assert tight < printed and (printed >= 1) == (eps >= math.log(num_classes))
    prior = torch.arange(1.0, num_classes + 1, dtype=torch.float64)
    prior /= prior.sum()
    for mechanism in (
        RandomizedResponse(eps), BlockRR(eps, sigma=0.6, favoured=2),
        RandomizedResponseWithPrior(eps),
    ):  # fmt: skip
        kept = mechanism.transition_matrix(num_classes, prior).diagonal().mean()
        assert float(kept) <= tight + 1e-12
    plain = RandomizedResponse(eps).transition_matrix(num_classes).diagonal().mean()
    assert float(plain) == pytest.approx(tight, abs=1e-12)
    best = OptimalMechanism(eps)
    likelihood = best.log_likelihood(best.output_space(num_classes), num_classes).exp()
    assert float(likelihood.amax(1).sum()) / num_classes <= tight + 1e-9


def test_theorem_2_on_the_circle():
    # Golden: Delta = sqrt(ln(2K / delta) / (2k)) times (e^.5 + 1)/(e^.5 - 1) is 0.5545 at K=40.
    assert 2 * problem().distance(with_bias=False) == pytest.approx(1.109, abs=1e-3)
    assert (
        problem(k=246).distance(with_bias=False) < 0.5 <= problem(k=245).distance(with_bias=False)
    )
    assert problem().excess_risk(with_bias=False) == pytest.approx(1.159, abs=1e-3)
    # With few classes no margin is small, so that only the probability of failure is left.
    assert problem(num_classes=5).excess_risk(with_bias=False) == pytest.approx(0.05)
    assert problem().excess_risk(with_bias=True) > 1


@pytest.mark.parametrize("num_classes", [3, 30, 100])
def test_radius_and_steepness_by_draws_and_differences(num_classes):
    # The bias term would be that of other data.
    ring = problem(num_classes=num_classes)
    rng = np.random.default_rng(1)
    angles = 2 * math.pi * np.arange(num_classes) / num_classes
    means = np.stack([np.cos(angles), np.sin(angles)], 1)
    points = means[rng.integers(num_classes, size=200_000)] + 0.05 * rng.standard_normal(
        (200_000, 2)
    )
    centres = [
        np.array([math.cos(a), math.sin(a)]) for a in np.linspace(0, math.pi / num_classes, 9)
    ]
    inside = [(np.square(points - c).sum(1) <= ring.radius**2).mean() for c in centres]
    assert max(inside) == pytest.approx(0.04, rel=0.05)

    def law(x):
        logits = x @ means.T / 0.05**2
        return np.exp(logits - logits.max(-1, keepdims=True)) / np.exp(
            logits - logits.max(-1, keepdims=True)
        ).sum(-1, keepdims=True)

    half = math.pi / num_classes
    far = 5 * np.array([math.cos(half), math.sin(half)])
    across = np.array([-math.sin(half), math.cos(half)])
    slope = np.abs(law(far + 1e-5 * across) - law(far - 1e-5 * across)).max() / 2e-5
    assert slope == pytest.approx(ring.steepness, rel=1e-3)
    near = points[:2000] + 1e-5 * rng.standard_normal((2000, 2))
    moved = np.abs(law(near) - law(points[:2000])).max(1)
    assert (moved <= ring.steepness * np.linalg.norm(near - points[:2000], axis=1) * 1.001).all()


@pytest.mark.parametrize(("num_classes", "eps"), [(10, 1.0), (10, 4.0), (100, 1.0)])
def test_soft_label_is_that_of_alibi(num_classes, eps):
    # The curve would be that of another mechanism, and the corrected bound might not hold.
    found, mechanism = soft_label(eps, num_classes), AdditiveLaplace(eps)
    labels = torch.zeros(20_000, dtype=torch.int64)
    released = mechanism.release(labels, num_classes, seeding.generator(0, "test"))
    own = mechanism.log_likelihood(released, num_classes).softmax(1)[:, 0]
    assert found.mass == pytest.approx(float(own.mean()), rel=0.05)
    above = (released[:, 1:] >= released[:, :1]).sum(1)
    assert (own <= 1 / (1 + above) + 1e-6).all()
    assert found.empty == pytest.approx(float((above == 0).double().mean()), abs=0.01)
    assert found.mass < found.corrected < found.printed <= 1
