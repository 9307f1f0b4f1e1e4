"""Circle data and k nearest neighbours against independent computations."""

import math

import numpy as np
import pytest
import torch

from labeldp.supervision import predict
from labeldp.support.validate import InputError
from labeldp_bench.data.circle import CircleGaussians, bayes_accuracy
from labeldp_bench.experiments.compose import compose_cell


def circle(**changes):
    values = dict(num_classes=40, sigma=0.05, n_train=500, n_test=200, trials=1)
    return CircleGaussians(**(values | changes))


TWO_APART = 0.5 * (1 + math.erf(1 / 0.7 / math.sqrt(2)))
"""Of two Gaussians whose means are 2 apart: Phi(1 / sigma)."""


@pytest.mark.parametrize(
    ("num_classes", "sigma", "expected", "within"),
    [(40, 0.05, 0.8834, 1e-4), (100, 0.05, 0.4701, 1e-4), (2, 0.7, TWO_APART, 1e-9)],
)
def test_bayes_accuracy_equals_the_reference(num_classes, sigma, expected, within):
    # The dashed line of Figure 2 would be elsewhere.
    assert bayes_accuracy(num_classes, sigma) == pytest.approx(expected, abs=within)


@pytest.mark.parametrize(("num_classes", "sigma"), [(2, 0.5), (3, 1.0), (10, "2/K"), (40, 0.05)])
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


def test_k_beyond_the_training_set_is_refused():
    # cKDTree would return a neighbour that does not exist.
    parts = compose_cell(["dataset.n_train=50", "model.k=51"]).build()
    bundle = parts.dataset.draw(None, seed=0)
    store = bundle.store.open(1.0, seed=0, again="test")
    with pytest.raises(InputError, match=r"model\.k must be <= "):
        parts.learner.fit(bundle.train_features, store, parts.mechanism, parts.model, None)


def test_ties_do_not_favour_a_low_index():
    # With weak signal the first classes would win by their number alone.
    predicted = [int(predict(torch.zeros(1, 10), seed)) for seed in range(300)]
    counts = np.bincount(predicted, minlength=10)
    assert counts.min() > 10


@pytest.mark.parametrize(
    "argument", [{"sigma": "1/K"}, {"sigma": 0}, {"num_classes": 1}, {"trials": 0}]
)
def test_bad_parameters_are_one_line(argument):
    ((key, value),) = argument.items()
    with pytest.raises(InputError, match=rf"^dataset\.{key} must be [^\n]*, got {value!r}$"):
        circle(**argument)
