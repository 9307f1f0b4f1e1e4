"""A Gaussian process on the graph: its algebra, its prior and its classes."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from labeldp_bench.mechanisms import RandomizedResponse, SubsetSelection
from labeldp_bench.models import GraphGaussianProcess
from labeldp_bench.models.graph_gaussian_process import (
    SIGNALS,
    noise_variance,
    posterior,
    shrunk_means,
)
from labeldp_bench.privacy.release import Release
from labeldp_bench.supervision.interfaces import Session
from labeldp_bench.supervision.losses import loss_named
from labeldp_bench.supervision.targets import Supervision
from labeldp_bench.support.validate import InputError
from tests.learning import rings

NOISE = 0.7


def session():
    return Session(0, torch.device("cpu"), lambda *_: None, lambda _: None)


def released(labels, eps, rows=None, mechanism=SubsetSelection, classes=3):
    rows = torch.arange(len(labels)) if rows is None else rows
    made = mechanism(eps)
    outputs = made.release(labels[rows], classes, torch.Generator().manual_seed(1))
    return Supervision.of([Release(rows, outputs, made, classes)], loss_named("bce"))


@pytest.fixture(scope="module")
def problem():
    """Functions, votes and a prior, small enough for the whole covariance."""
    draws = torch.Generator().manual_seed(3)
    functions = torch.randn(40, 5, generator=draws).double()
    votes = functions @ torch.randn(5, 3, generator=draws).double() + torch.randn(
        40, 3, generator=draws
    )
    return functions, votes, torch.tensor([5.0, 3.0, 1.0, 0.5, 0.1]).double()


def covariance(functions, prior, signal):
    """Of the votes of one class, without the code under test."""
    return NOISE * (np.eye(len(functions)) + signal * functions * prior / prior.sum() @ functions.T)


def test_posterior_is_that_of_the_whole_covariance(problem):
    functions, votes, prior = (each.numpy() for each in problem)
    found = posterior(
        *(torch.from_numpy(each) for each in (functions.T @ functions, functions.T @ votes)),
        NOISE, len(functions), problem[2],
    )  # fmt: skip
    whole = covariance(functions, prior, found.signal)
    of_function = whole - NOISE * np.eye(len(functions))
    mean = of_function @ np.linalg.solve(whole, votes)
    left = of_function - of_function @ np.linalg.solve(whole, of_function)
    assert np.allclose(functions @ found.weights.numpy(), mean)
    assert found.doubt == pytest.approx(left.diagonal().mean())


def test_the_signal_is_the_most_likely_one(problem):
    functions, votes, prior = (each.numpy() for each in problem)
    gram, moments = functions.T @ functions, functions.T @ votes

    def log_density(signal):
        law = multivariate_normal(np.zeros(len(functions)), covariance(functions, prior, signal))
        return law.logpdf(votes.T).sum()

    densities = [log_density(float(signal)) for signal in SIGNALS]
    nothing = multivariate_normal(np.zeros(len(functions)), NOISE * np.eye(len(functions)))
    found = posterior(
        torch.from_numpy(gram), torch.from_numpy(moments), NOISE, len(functions), problem[2]
    )
    assert found.signal == float(SIGNALS[int(np.argmax(densities))])
    assert found.log_evidence == pytest.approx(max(densities) - nothing.logpdf(votes.T).sum())


def test_noise_is_the_residual_of_least_squares(problem):
    functions, votes, _ = problem
    functions, votes = functions - functions.mean(0), votes - votes.mean(0)
    fitted = torch.linalg.lstsq(functions, votes).solution
    left = (votes - functions @ fitted).square().sum() / (40 - 5 - 1) / 3
    found = noise_variance(votes, functions.T @ functions, functions.T @ votes)
    assert found == pytest.approx(float(left))


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


def test_means_that_noise_explains_are_equal():
    means = torch.tensor([0.11, 0.09, 0.1], dtype=torch.float64)
    assert torch.allclose(shrunk_means(means, 1e-3), torch.full((3,), 0.1).double())
    assert torch.allclose(shrunk_means(means, 1e-9), means, atol=1e-4)


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
