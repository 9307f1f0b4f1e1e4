"""Circle data and k nearest neighbours against independent computations."""

import math

import numpy as np
import pytest
import torch

from labeldp_bench.data.circle import CircleGaussians, bayes_accuracy
from labeldp_bench.experiments.compose import compose_cell


def circle(**changes):
    values = dict(num_classes=40, sigma=0.05, n_train=500, n_test=200, trials=1)
    return CircleGaussians(**(values | changes))


TWO_APART = 0.5 * (1 + math.erf(1 / 0.7 / math.sqrt(2)))
"""Of two Gaussians whose means are 2 apart: Phi(1 / sigma)."""


@pytest.mark.parametrize(
    ("num_classes", "sigma", "expected", "within"),
    [
        (40, 0.05, 0.8834, 1e-4),
        (100, 0.05, 0.4701, 1e-4),
        (2, 0.7, TWO_APART, 1e-9),
        (2, 1e-3, 1.0, 1e-9),
    ],
)
def test_bayes_accuracy_equals_the_reference(num_classes, sigma, expected, within):
    # The dashed line of Figure 2 would be elsewhere.
    assert bayes_accuracy(num_classes, sigma) == pytest.approx(expected, abs=within)


@pytest.mark.parametrize(("num_classes", "sigma"), [(3, 1.0), (10, "2/K")])
def test_bayes_accuracy_equals_monte_carlo(num_classes, sigma):
    # The closed radial part or the sector would be wrong where sigma is large.
    data = circle(num_classes=num_classes, sigma=sigma, n_train=1, n_test=200_000)
    bundle = data.draw(None, seed=1)
    angles = torch.atan2(bundle.test_features[:, 1], bundle.test_features[:, 0])
    nearest = (angles / (2 * math.pi / num_classes)).round().long() % num_classes
    accuracy = (nearest == bundle.test_labels).double().mean()
    assert bundle.bayes_accuracy == pytest.approx(float(accuracy), abs=4 * 0.5 / math.sqrt(2e5))


def test_points_have_the_stated_mean_and_spread():
    # Another design than the paper's would be measured.
    bundle = circle(num_classes=4, sigma="2/K", n_test=40_000).draw(None, seed=0)
    for label in range(4):
        points = bundle.test_features[bundle.test_labels == label].numpy()
        angle = 2 * math.pi * label / 4
        assert np.allclose(points.mean(0), [math.cos(angle), math.sin(angle)], atol=0.03)
        assert np.allclose(points.std(0), 0.5, atol=0.02)


@pytest.mark.parametrize("name", ["circle", "holder_classification", "holder_regression"])
def test_each_trial_has_labels_of_its_own(name):
    # A run of a hundred trials would be said to spend a hundred times eps.
    dataset = compose_cell([f"dataset={name}", "dataset.n_train=50"]).build().dataset
    assert dataset.draw(None, 0).fresh_labels
