"""Data of the theory: distributions, risks and the patients against independent computations."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kstest
from sklearn.datasets import load_diabetes
from sklearn.neighbors import KNeighborsRegressor

from labeldp.mechanisms import Laplace, NoPrivacy
from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp_bench.data.theory import (
    Diabetes,
    HolderClassification,
    HolderRegression,
    rough_function,
)
from labeldp_bench.learners.averages import LocalAverages
from labeldp_bench.models.neighbours import Cubes, first_of_window
from labeldp_bench.records.collect import collect
from labeldp_bench.runs.evaluate import ErrorTally, RiskTally
from tests.shell import quick, records_under

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


@pytest.mark.parametrize(
    ("gamma", "dimension", "most"), [(0.5, 1, 0.2), (2.0, 1, 0.2), (0.5, 3, 0.02), (2.0, 3, 0.2)]
)
def test_margin_has_the_stated_exponent(gamma, dimension, most):
    # The exponents of table I contain gamma.
    data = classification(gamma=gamma, beta=0.5, dimension=dimension)
    law = data.probabilities(data.test_points)
    margin = (law[:, 0] - law[:, 1]).abs()
    mass = [float((margin <= t).double().mean()) for t in (most / 4, most)]
    assert math.log(mass[1] / mass[0]) / math.log(4) == pytest.approx(gamma, rel=0.25)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_risks_see_the_roughness_of_the_target(dimension):
    # Waves that are constant on the test points would be no bias of a cube.
    axis = regression(dimension=dimension).test_points[:, -1].unique()
    for level in range(1, 13):
        assert (2 * math.pi * 2**level * axis).cos().std() > 0.6, level


@pytest.mark.parametrize("num_classes", [2, 10])
def test_labels_follow_the_stated_law(num_classes):
    # The excess risk would be that of another problem.
    data = classification(num_classes=num_classes, n_train=200_000)
    bundle = data.draw(None, seed=1)
    law = data.probabilities(bundle.train_features)
    assert (law.sum(1) - 1).abs().max() < 1e-12
    counts = bundle.store.open(math.inf, 0).release(
        NoPrivacy().over(torch.zeros(200_000, dtype=torch.int64), 1)
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


REAL = ("laplace", "clipped_laplace", "rr_on_bins", "rp_with_prior", "unbiased_randomizer")


def drawn(seed=0, **changes):
    return Diabetes(**(dict(low=25.0, high=346.0, n_test=89, trials=1) | changes)).draw(None, seed)


def own_labels(bundle):
    """The store's labels, which eps=inf gives away, by the rule that was applied to them."""
    everyone = torch.arange(len(bundle.train_features))
    return bundle.store.open(np.inf, 0).release(NoPrivacy().over(everyone, len(everyone)))


def test_labels_are_scaled_by_the_stated_range_and_by_nothing_else(monkeypatch):
    # A range taken from the labels would tell the largest and smallest of them for nothing.
    features, _ = load_diabetes(return_X_y=True, scaled=False)
    other = np.linspace(100, 200, len(features))
    monkeypatch.setattr(Diabetes, "read", lambda self: (features, other))
    bundle = drawn(low=50.0, high=150.0)
    scaled = own_labels(bundle)
    assert bundle.label_unit == 50.0 and bundle.store.bound == 1.0
    assert scaled.max() == 1.0 and (scaled == 1.0).double().mean() == pytest.approx(0.5, abs=0.1)
    back = scaled * 50 + 100
    assert torch.isin(back[back < 150], torch.from_numpy(other)).all()
    assert bundle.test_labels.max() > 1.0  # scores are on labels as they are


def test_the_split_is_the_same_for_every_seed_and_another_for_another_split_seed():
    # Mechanisms would be compared on different patients.
    one, two, three = drawn(seed=0), drawn(seed=1), drawn(split_seed=1)
    assert torch.equal(one.test_labels, two.test_labels)
    assert not torch.equal(one.test_labels, three.test_labels)
    assert (len(one.train_features), len(one.test_features)) == (353, 89)
    raw, labels = load_diabetes(return_X_y=True, scaled=False)
    standard = (raw - raw.mean(0)) / raw.std(0)
    every = torch.cat([one.train_features, one.test_features]).numpy()
    assert np.allclose(np.sort(every[:, 2]), np.sort(standard[:, 2]), atol=1e-6)
    kept = torch.cat([own_labels(one), one.test_labels]) * 160.5 + 185.5
    assert np.allclose(np.sort(kept.numpy()), np.sort(labels))
    assert not one.fresh_labels  # trials would be said to spend eps once
    # A hash over the training labels would let who knows all but one read that one off.
    assert one.sha256 == two.sha256 != three.sha256


def test_error_without_privacy_is_that_of_scikit_learn(tmp_path):
    # Neighbours, scaling or units would be wrong.
    run = quick(["dataset=diabetes", "mechanism=none", "model.k=20", "dataset.trials=1"], tmp_path)
    assert run.returncode == 0, run.stderr
    (path,) = records_under(tmp_path)
    record = json.loads(path.read_text())
    bundle = drawn()
    unit, middle = 160.5, 185.5
    model = KNeighborsRegressor(20).fit(bundle.train_features, own_labels(bundle) * unit + middle)
    truth = bundle.test_labels.numpy() * unit + middle
    error = np.square(model.predict(bundle.test_features) - truth).mean()
    assert record["test_mse"] == pytest.approx(error, rel=1e-6)
    assert record["test_variance"] == pytest.approx(truth.var())
    assert f"{100 * error / truth.var():.1f} % of the variance" in run.stdout


def test_every_mechanism_for_real_labels_runs_and_is_collected(tmp_path):
    # A user would get no number, an accuracy of a regression, or an empty row of the table.
    names = ",".join(REAL)
    data = ["dataset=diabetes", "dataset.trials=4"]
    run = quick(["-m", *data, f"mechanism={names}", "eps=2"], tmp_path)
    assert run.returncode == 0, run.stderr
    assert "test MSE" in run.stdout
    one_run = quick([*data, "mechanism=cube_means", "model=cubes", "model.cells=1"], tmp_path)
    assert one_run.returncode == 0 and "by 4 trials on the same labels" in one_run.stdout
    records = [json.loads(path.read_text()) for path in records_under(tmp_path)]
    assert {record["mechanism"] for record in records} == {*REAL, "cube_means"}
    for record in records:
        assert record["task"] == "regression" and record["accuracy"] is None
        assert 2000 < record["test_mse"] < 20_000 and record["test_mse_sem"] > 0
        assert "excess_risk" not in record
        assert record["eps_spent"] == record["trials"] * record["eps"]
        assert record["trust"] == ("central" if record["mechanism"] == "cube_means" else "local")
    collect(tmp_path, tmp_path / "records.csv", tmp_path / "per_class.csv")
    rows = pd.read_csv(tmp_path / "records.csv").set_index("mechanism")
    assert rows.test_mse.notna().all() and rows.excess_risk.isna().all()


def test_error_is_in_squared_units_of_the_data():
    # A mean squared error of scaled labels would be compared with published ones.
    class Off:
        def values(self, points):
            return torch.tensor([0.5, 0.5], dtype=torch.float64)

    tally = ErrorTally(torch.tensor([0.0, 1.0], dtype=torch.float64), unit=10.0)
    for seed in range(2):
        tally.add(Off(), torch.zeros(2, 1), seed)
    expected = {"test_mse": 25.0, "test_mse_sem": 0.0, "test_variance": 25.0, "trials": 4}
    assert tally.merged(tally).summary() == expected


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_sizes_follow_the_theory_in_few_dimensions_only(dimension):
    # In ten dimensions the rule takes three neighbours at eps=1, which is noise.
    store = LabelStore(torch.zeros(1000, dtype=torch.float64), 0, bound=1.0).open(1.0, 0)
    learner = LocalAverages(loss="squared", beta=1.0, constant=0.9)
    features = torch.rand(1000, dimension, dtype=torch.float64)
    _, sized = learner._tuned(features, store, Laplace(1.0), Cubes(cells=2))
    expected = {1: round(1000 ** (1 / 3) / 0.9), 2: round(1000**0.25 / 0.9), 3: 2}
    assert sized.cells == expected[dimension]
