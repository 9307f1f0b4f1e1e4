"""Circle data and k nearest neighbours against independent computations."""

import math

import numpy as np
import pytest
import torch

from labeldp.supervision import predict
from labeldp.support.validate import InputError
from labeldp_bench.data.circle import CircleGaussians, bayes_accuracy
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models.neighbours import NeighbourSearch


def circle(**changes):
    values = dict(num_classes=40, sigma=0.05, n_train=500, n_test=200, trials=1)
    return CircleGaussians(**(values | changes))


@pytest.mark.parametrize(("num_classes", "expected"), [(40, 0.8834), (100, 0.4701)])
def test_bayes_accuracy_equals_the_reference(num_classes, expected):
    # The dashed line of Figure 2 would be elsewhere.
    assert bayes_accuracy(num_classes, 0.05) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("num_classes", "sigma"), [(2, 0.5), (3, 1.0), (10, "2/K"), (40, 0.05)])
def test_bayes_accuracy_equals_monte_carlo(num_classes, sigma):
    # The closed radial part or the sector would be wrong where sigma is large.
    data = circle(num_classes=num_classes, sigma=sigma, n_train=1, n_test=200_000)
    bundle = data.draw(None, seed=1)
    angles = torch.atan2(bundle.test_features[:, 1], bundle.test_features[:, 0])
    nearest = (angles / (2 * math.pi / num_classes)).round().long() % num_classes
    accuracy = (nearest == bundle.test_labels).double().mean()
    assert bundle.bayes_accuracy == pytest.approx(float(accuracy), abs=4 * 0.5 / math.sqrt(2e5))


def test_two_wide_gaussians_have_a_known_limit():
    # A hand-checkable number: means 2 apart, so Phi(1 / sigma).
    expected = 0.5 * (1 + math.erf(1 / 0.7 / math.sqrt(2)))
    assert bayes_accuracy(2, 0.7) == pytest.approx(expected, abs=1e-9)


def test_points_have_the_stated_mean_and_spread():
    # Another design than the paper's would be measured.
    bundle = circle(num_classes=4, sigma="2/K", n_test=40_000).draw(None, seed=0)
    for label in range(4):
        points = bundle.test_features[bundle.test_labels == label].numpy()
        angle = 2 * math.pi * label / 4
        assert np.allclose(points.mean(0), [math.cos(angle), math.sin(angle)], atol=0.03)
        assert np.allclose(points.std(0), 0.5, atol=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sigma": "1/K"}, "dataset.sigma must be a number > 0 or the text 2/K, got '1/K'"),
        ({"sigma": 0}, "dataset.sigma must be a number > 0, got 0"),
        ({"num_classes": 1}, "dataset.num_classes must be >= 2, got 1"),
        ({"trials": 0}, "dataset.trials must be >= 1, got 0"),
    ],
)
def test_bad_parameters_are_one_line(changes, message):
    # A user would see a traceback from numpy.
    with pytest.raises(InputError) as error:
        circle(**changes)
    assert str(error.value) == message


@pytest.mark.parametrize("name", ["circle", "holder_classification", "holder_regression"])
def test_each_trial_has_labels_of_its_own(name):
    # A run of a hundred trials would be said to spend a hundred times eps.
    dataset = compose_cell([f"dataset={name}", "dataset.n_train=50"]).build().dataset
    assert dataset.draw(None, 0).fresh_labels


@pytest.mark.parametrize("dimensions", [2, 20])
def test_neighbours_equal_a_full_sort(dimensions):
    # Votes would come from the wrong examples (tree in 2-D, brute force in 20-D).
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(300, dimensions, generator=generator)
    queries = torch.randn(50, dimensions, generator=generator)
    found = NeighbourSearch()(points, queries, 7).sort(1).values
    expected = torch.cdist(queries.double(), points.double()).argsort(1)[:, :7].sort(1).values
    assert torch.equal(found, expected)


def test_search_is_shared_only_for_the_same_points():
    # A cell would be scored with another cell's neighbours.
    search = NeighbourSearch()
    generator = torch.Generator().manual_seed(0)
    points, queries = (
        torch.randn(99, 2, generator=generator),
        torch.randn(9, 2, generator=generator),
    )
    first = search(points, queries, 5)
    assert search(points, queries, 5) is first
    assert search(points, queries, 6).shape == (9, 6)
    moved = search(points + 1, queries, 5)
    expected = torch.cdist(queries.double(), (points + 1).double()).argsort(1)[:, :5]
    assert torch.equal(moved.sort(1).values, expected.sort(1).values)


def test_k_beyond_the_training_set_is_refused():
    # cKDTree would return a neighbour that does not exist.
    parts = compose_cell(["dataset.n_train=50", "model.k=51"]).build()
    bundle = parts.dataset.draw(None, seed=0)
    store = bundle.store.open(1.0, seed=0, again="test")
    with pytest.raises(InputError, match=r"model\.k must be <= the number of training examples"):
        parts.learner.fit(bundle.train_features, store, parts.mechanism, parts.model, None)


def test_ties_do_not_favour_a_low_index():
    # With weak signal the first classes would win by their number alone.
    predicted = [int(predict(torch.zeros(1, 10), seed)) for seed in range(300)]
    counts = np.bincount(predicted, minlength=10)
    assert counts.min() > 10
