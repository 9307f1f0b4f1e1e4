"""The theory's data, estimators and risks against independent computations."""

import math

import pytest
import torch
from scipy.stats import kstest

from labeldp.mechanisms import GroupSums, NoPrivacy
from labeldp.support import seeding
from labeldp.support.validate import InputError
from labeldp_bench.data.theory import HolderClassification, HolderRegression, rough_function
from labeldp_bench.models import Cubes
from labeldp_bench.models.neighbours import first_of_window
from labeldp_bench.runs.evaluate import RiskTally

CLASSES = dict(dimension=1, beta=0.5, target="weierstrass", n_train=4000, trials=1)


def classification(**changes):
    return HolderClassification(**(CLASSES | dict(num_classes=2, gamma=1.0) | changes))


def regression(**changes):
    return HolderRegression(**(CLASSES | dict(noise="uniform") | changes))


@pytest.mark.parametrize("target", ["weierstrass", "bumps"])
@pytest.mark.parametrize("smoothness", [0.5, 0.8])
def test_rough_targets_are_as_rough_as_they_say(target, smoothness):
    # Slopes would be compared with the exponent of another smoothness.
    function = rough_function(target, smoothness, 0)
    steps = [2**j for j in range(1, 8)]
    moves = [float((function[step:] - function[:-step]).square().mean().sqrt()) for step in steps]
    x, y = torch.tensor(steps).double().log(), torch.tensor(moves).log()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    assert slope == pytest.approx(smoothness, abs=0.08)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_margin_has_the_stated_exponent(gamma):
    # The exponents of table I contain gamma.
    law = classification(gamma=gamma, beta=0.5).probabilities(classification().test_points)
    margin = (law[:, 0] - law[:, 1]).abs()
    mass = [float((margin <= t).double().mean()) for t in (0.05, 0.2)]
    assert math.log(mass[1] / mass[0]) / math.log(4) == pytest.approx(gamma, rel=0.25)


@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_labels_follow_the_stated_law(num_classes):
    # The excess risk would be that of another problem.
    data = classification(num_classes=num_classes, n_train=200_000)
    bundle = data.draw(None, seed=1)
    law = data.probabilities(bundle.train_features)
    assert (law.sum(1) - 1).abs().max() < 1e-12
    counts = bundle.store.open(math.inf, 0).release(
        GroupSums(NoPrivacy(), torch.zeros(200_000, dtype=torch.int64), 1)
    )
    assert torch.allclose(counts[0] / 200_000, law.mean(0), atol=0.005)
    assert kstest(bundle.train_features.flatten(), "uniform").pvalue > 1e-3


def test_noises_have_mean_zero_and_the_stated_tail():
    # A shifted mean would look like a bias of clipping.
    draws = {}
    for noise in ("uniform", "pareto", "student"):
        data = regression(noise=noise, n_train=400_000, moment=3.0)
        draws[noise] = data._noise(seeding.generator(0, "test"))
        assert abs(float(draws[noise].mean())) < 0.01, noise
    index = 3.05
    assert kstest(draws["pareto"] / 0.5 + index / (index - 1), "pareto", (index,)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gamma": 3.0}, "gamma .* got 1.5"),
        ({"beta": 0.0}, "beta"),
        ({"dimension": 3}, "dimension"),
        ({"target": "rough"}, "target"),
    ],
)
def test_impossible_distributions_are_one_line(changes, named):
    # A distribution that does not exist would be measured against its rate.
    with pytest.raises(InputError, match=rf"^dataset\.{named}[^\n]*$"):
        classification(**changes)


@pytest.mark.parametrize("k", [1, 7, 200])
def test_window_holds_the_k_nearest(k):
    # Neighbours would be others than the nearest.
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(200, generator=generator, dtype=torch.float64).sort().values
    queries = torch.rand(60, generator=generator, dtype=torch.float64) * 1.2 - 0.1
    first = first_of_window(points, queries, k)
    for query, start in zip(queries, first.tolist(), strict=True):
        nearest = (points - query).abs().argsort()[:k].sort().values
        assert nearest.tolist() == list(range(start, start + k))


def test_cubes_in_two_dimensions():
    # Points would vote in another cube.
    model = Cubes(cells=4)
    points = torch.tensor([[0.1, 0.1], [0.1, 0.9], [0.9, 0.1], [2.0, -1.0]], dtype=torch.float64)
    assert model.locate(points).tolist() == [0, 3, 12, 12]


def test_bias_and_variance_of_a_known_estimator():
    # "agrees" depends on both.
    class Noisy:
        def __init__(self, seed):
            generator = torch.Generator().manual_seed(seed)
            self.noise = torch.randn(500, generator=generator, dtype=torch.float64)

        def values(self, points):
            return 0.5 + 0.2 * self.noise

    tally = RiskTally(torch.zeros(500, dtype=torch.float64))
    for seed in range(50):
        tally.add(Noisy(seed), torch.zeros(500, 1), seed)
    summary = tally.summary()
    assert summary["bias"] == pytest.approx(0.25, abs=0.01)
    assert summary["variance"] == pytest.approx(0.04, abs=0.005)
