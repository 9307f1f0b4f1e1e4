"""A Gaussian process on the graph: its algebra, its prior and its classes."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse, SubsetSelection
from labeldp.store.release import Release
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Session
from labeldp_bench.models import GraphGaussianProcess
from labeldp_bench.models.graph_gaussian_process import (
    SIGNALS,
    clear_part,
    noise_variance,
    posterior,
)
from tests.learning import rings

NOISE = 0.7


def session():
    return Session(0, torch.device("cpu"))


def released(labels, eps, rows=None, mechanism=SubsetSelection, classes=3, seed=1):
    rows = torch.arange(len(labels)) if rows is None else rows
    made = mechanism(eps)
    outputs = made.release(labels[rows], classes, torch.Generator().manual_seed(seed))
    return Supervision.of([Release(rows, outputs, made, classes)], loss_named("bce"))


@pytest.fixture(scope="module")
def problem():
    """Functions, votes that sum to 0, a prior; small enough for the whole covariance."""
    draws = torch.Generator().manual_seed(3)
    functions = torch.randn(40, 5, generator=draws).double()
    votes = functions @ torch.randn(5, 3, generator=draws).double()
    votes += torch.randn(40, 3, generator=draws)
    functions, votes = functions - functions.mean(0), votes - votes.mean(0)
    prior = torch.tensor([5.0, 3.0, 1.0, 0.5, 0.1]).double()
    return functions, votes - votes.mean(1, keepdim=True), prior


@pytest.fixture(scope="module")
def found(problem):
    functions, votes, prior = problem
    return posterior(functions.T @ functions, functions.T @ votes, NOISE, len(functions), prior)


def covariance(problem, signal):
    """Of the votes in one direction, without the code under test."""
    functions, _, prior = (each.numpy() for each in problem)
    return NOISE * (np.eye(len(functions)) + signal * functions * prior / prior.sum() @ functions.T)


def test_posterior_is_that_of_the_whole_covariance(problem, found):
    functions, votes, _ = (each.numpy() for each in problem)
    whole = covariance(problem, found.signal)
    of_function = whole - NOISE * np.eye(len(functions))
    mean = of_function @ np.linalg.solve(whole, votes)
    left = of_function - of_function @ np.linalg.solve(whole, of_function)
    assert np.allclose(functions @ found.weights.numpy(), mean)
    # A class is two thirds of a direction: three classes, two directions.
    assert found.doubt == pytest.approx(left.diagonal().mean() * 2 / 3)


def test_the_signal_is_the_most_likely_one(problem, found):
    directions = np.array([[1, -1, 0], [1, 1, -2]]).T / np.sqrt([2, 6])
    seen = (problem[1].numpy() @ directions).T

    def log_density(whole):
        return multivariate_normal(np.zeros(len(whole)), whole).logpdf(seen).sum()

    densities = [log_density(covariance(problem, float(signal))) for signal in SIGNALS]
    assert found.signal == float(SIGNALS[int(np.argmax(densities))])
    nothing = log_density(NOISE * np.eye(seen.shape[1]))
    assert found.log_evidence == pytest.approx(max(densities) - nothing)


def test_noise_is_the_residual_of_least_squares(problem):
    functions, votes, _ = problem
    left = votes - functions @ torch.linalg.lstsq(functions, votes).solution
    expected = float(left.square().sum()) / (40 - 5 - 1) / 2
    found = noise_variance(votes, functions.T @ functions, functions.T @ votes)
    assert found == pytest.approx(expected)


def test_groups_are_learnt_at_an_eps_where_every_release_is_nearly_noise():
    points, labels = rings(6000, seed=0)
    fresh, truth = rings(500, seed=1)
    fitted = GraphGaussianProcess(torch.nn.Linear).fit(points, released(labels, 0.3), session())
    assert (fitted.scores(fresh).argmax(1) == truth).double().mean() > 0.95
    assert torch.allclose(fitted.probabilities(fresh).sum(1), torch.ones(500).double())


def test_noise_asks_for_a_smoother_function():
    draws = torch.Generator().manual_seed(0)
    points = torch.rand(4000, 2, generator=draws)
    labels = (12 * points[:, 0]).long() % 3
    chosen = []
    for eps in (0.2, 8.0):
        now = session()
        GraphGaussianProcess(torch.nn.Linear, functions=30).fit(points, released(labels, eps), now)
        chosen.append(now.notes["signal"])
    assert chosen[0] < chosen[1] / 30


def test_classes_keep_their_sizes_when_votes_are_clear():
    """Scaling to one size for all, whatever the votes say, would fail here."""
    points, labels = rings(3000, seed=0)
    few = torch.cat([torch.nonzero(labels != 2)[:, 0], torch.nonzero(labels == 2)[:40, 0]])
    rows = few.sort().values
    fitted = GraphGaussianProcess(torch.nn.Linear).fit(
        points, released(labels, 6.0, rows), session()
    )
    shares = fitted.scores(points).argmax(1)[rows].bincount(minlength=3) / len(rows)
    truth = labels[rows].bincount(minlength=3) / len(rows)
    assert torch.allclose(shares, truth, atol=0.02)


def test_class_means_count_where_noise_cannot_explain_them():
    means = torch.tensor([0.01, -0.01, 0.0], dtype=torch.float64)
    bound = 2e-4 / 5.991  # 5.991: of a chi-square with two degrees of freedom, 5 %
    assert torch.equal(clear_part(means, 1.01 * bound), torch.zeros(3).double())
    assert (clear_part(means, 0.99 * bound) != 0).sum() == 2
    assert torch.allclose(clear_part(means, 1e-9), means, rtol=1e-3)


def test_an_answer_by_chance_is_no_single_class():
    """Without a signal the class means decided, and every image was one class."""
    points, _ = rings(3000, seed=0)
    labels = torch.arange(3000) % 3  # features tell nothing of them
    now, supervision = session(), released(labels, 0.05, seed=7)
    fitted = GraphGaussianProcess(torch.nn.Linear).fit(points, supervision, now)
    assert now.notes["signal"] == float(SIGNALS[0])
    assert fitted.scores(points).argmax(1).bincount(minlength=3).min() > 300


def test_one_class_alone_is_learnt_without_a_warning():
    points, labels = rings(300, seed=0)
    supervision = released(torch.zeros_like(labels), 1.0, mechanism=RandomizedResponse)
    fitted = GraphGaussianProcess(torch.nn.Linear).fit(points, supervision, session())
    assert fitted.scores(points).isfinite().all()
    outputs = torch.zeros(300, 3, dtype=torch.uint8)  # no bit is set anywhere
    releases = [Release(torch.arange(300), outputs, SubsetSelection(1.0), 3)]
    silent = Supervision.of(releases, loss_named("bce"))
    fitted = GraphGaussianProcess(torch.nn.Linear).fit(points, silent, session())
    assert fitted.scores(points).isfinite().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"functions": 0}, "model.functions must be a number >= 1, got 0"),
        ({"smoothness": [0]}, "model.smoothness"),
        ({"smoothness": []}, "model.smoothness"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        GraphGaussianProcess(torch.nn.Linear, **changes)


def test_too_few_examples_for_the_classes_are_said():
    heard = []
    points, labels = rings(30, seed=0)
    rows = torch.arange(6)  # two functions, three classes
    now = Session(0, torch.device("cpu"), say=heard.append)
    GraphGaussianProcess(torch.nn.Linear).fit(points, released(labels, 1.0, rows), now)
    assert heard == [
        "  only 2 smooth functions for 3 classes: some will be taken for others "
        "(fewer model.neighbours, or more examples)"
    ]
