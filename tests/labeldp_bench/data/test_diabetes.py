"""The real regression set: public scaling, one split, squared errors in the labels' own units."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_diabetes
from sklearn.neighbors import KNeighborsRegressor

from labeldp.mechanisms import GroupSums, Laplace, NoPrivacy
from labeldp.store import LabelStore
from labeldp_bench.data import theory as module
from labeldp_bench.data.theory import Diabetes
from labeldp_bench.learners import LocalAverages
from labeldp_bench.models import Cubes
from labeldp_bench.records.collect import collect
from labeldp_bench.runs.evaluate import ErrorTally
from tests.shell import quick, records_under

REAL = ("laplace", "clipped_laplace", "rr_on_bins", "rp_with_prior", "unbiased_randomizer")


def drawn(seed=0, **changes):
    return Diabetes(**(dict(low=25.0, high=346.0, n_test=89, trials=1) | changes)).draw(None, seed)


def own_labels(bundle):
    """The store's labels, which eps=inf gives away, by the rule that was applied to them."""
    everyone = torch.arange(len(bundle.train_features))
    return bundle.store.open(np.inf, 0).release(GroupSums(NoPrivacy(), everyone, len(everyone)))


def test_labels_are_scaled_by_the_stated_range_and_by_nothing_else(monkeypatch):
    # A range taken from the labels would tell the largest and smallest of them for nothing.
    features, labels = module.load_patients()
    other = np.linspace(100, 200, len(labels))
    monkeypatch.setattr(module, "load_patients", lambda: (features, other))
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
    one_cube = [*data, "mechanism=cube_means", "model=cubes", "model.cells=1"]
    one_run = quick(one_cube, tmp_path)
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


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("mechanism=rappor", "Rappor"),
        ("mechanism=lp_2st", "RandomizedResponseWithPrior"),
        ("mechanism=rrwithprior", "RandomizedResponseWithPrior"),
        ("mechanism=none learner=single_stage", "learner=local_averages"),
        ("mechanism=cube_means", "model=cubes"),
        ("mechanism=cube_means model=cubes model.cells=2", "1,024 cubes for 353 examples"),
        ("mechanism=laplace dataset.low=400", "dataset.high"),
    ],
)
def test_pairs_that_make_no_sense_are_one_line(tmp_path, arguments, named):
    # A user would see a traceback, or a number that means nothing.
    run = quick(["dataset=diabetes", *arguments.split()], tmp_path)
    assert run.returncode == 2 and not records_under(tmp_path)
    (line,) = [line for line in run.lines if line.startswith("error")]
    assert named in line and "Traceback" not in run.stderr


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
