"""Mechanisms for real labels against brute force, closed forms and their own densities."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest

from labeldp.mechanisms import RPWithPrior, RROnBins, UnbiasedRandomizer
from labeldp.mechanisms.real_response import REACH, optimal_bins
from labeldp.support import seeding
from labeldp.support.validate import InputError

DISCRETE = [RROnBins(1.0), RROnBins(1.0, levels=9), UnbiasedRandomizer(1.0)]
EVERY = [*DISCRETE, RPWithPrior(1.0)]


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_sampler_draws_from_the_density(mechanism):
    # The audit above believes the density, not the sampler.
    for label in (-1.0, 0.13, 1.0):
        values = torch.full((20_000,), label, dtype=torch.float64)
        drawn = mechanism.release(values, 1.0, seeding.generator(0, "test"))
        if isinstance(mechanism, RPWithPrior):
            low, high, radius = mechanism.shape(1.0)
            grid = torch.linspace(low - radius, high + radius, 20_001, dtype=torch.float64)
            density = mechanism.log_density(grid, values[:1], 1.0).exp().flatten()
            mass = torch.cumulative_trapezoid(density, grid)
            assert float(mass[-1]) == pytest.approx(1, abs=1e-3)
            law = lambda z, g=grid, m=mass: np.interp(z, g[1:], m)  # noqa: E731
            assert kstest(drawn.numpy(), law).pvalue > 1e-3
            continue
        outputs = mechanism.breakpoints(1.0)[0]
        expected = mechanism.log_density(outputs, values[:1], 1.0).exp().flatten()
        assert float(expected.sum()) == pytest.approx(1, abs=1e-9)
        counts = (drawn[:, None] == outputs[None, :]).sum(0)
        kept = expected > 1e-3
        wanted = expected[kept] / expected[kept].sum() * counts[kept].sum()
        assert chisquare(counts[kept], wanted).pvalue > 1e-3


@pytest.mark.parametrize("eps", [0.5, 1.5, 3.0])
def test_bins_are_the_best_of_all_partitions(eps):
    # The dynamic programme would miss the optimum.
    labels = np.linspace(-1, 1, 7)
    prior = np.array([1, 4, 2, 1, 6, 3, 3.0]) / 20
    which, centres = optimal_bins(eps, tuple(labels), tuple(prior))

    def error(assignment, values):
        total, m = 0.0, len(values)
        for y, p, own in zip(labels, prior, assignment, strict=True):
            shares = np.full(m, 1.0)
            shares[own] = math.exp(eps)
            total += p * float((shares / shares.sum()) @ (np.asarray(values) - y) ** 2)
        return total

    best = math.inf
    for cuts in itertools.chain.from_iterable(
        itertools.combinations(range(1, 7), size) for size in range(7)
    ):
        edges = [0, *cuts, 7]
        assignment = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
        weights = [
            prior * np.where(assignment == b, math.exp(eps), 1) for b in range(len(edges) - 1)
        ]
        best = min(best, error(assignment, [w @ labels / w.sum() for w in weights]))
    assert error(which.tolist(), centres.tolist()) == pytest.approx(best, abs=1e-12)
    assert (centres.diff() > 0).all()


def test_randomiser_is_unbiased_and_no_worse_than_two_points():
    # Means of releases would not estimate the regression function.
    for eps in (0.5, 1.0, 3.0):
        mechanism = UnbiasedRandomizer(eps)
        matrix, outputs = mechanism.channel(1.0)
        levels = torch.linspace(-1, 1, 17, dtype=torch.float64)
        assert torch.allclose(matrix @ outputs, levels, atol=1e-5)
        variance = ((outputs[None, :] - levels[:, None]).square() * matrix).sum(1).mean()
        ends = (math.exp(eps) + 1) / (math.exp(eps) - 1)
        assert float(variance) <= 1.0001 * float((ends**2 - levels.square()).mean())
        assert float(variance) < 2 * (2 / eps) ** 2  # Laplace
    drawn = mechanism.release(
        torch.full((100_000,), 0.37, dtype=torch.float64), 1.0, seeding.generator(0, "test")
    )
    assert float(drawn.mean()) == pytest.approx(0.37, abs=0.01)


PRINTED = {0.5: "16", 1.0: "3.91", 2.0: "0.789", 4.0: "0.108", 8.0: "0.00436"}
"""In docs/theory.md, for labels uniform on 17 levels."""


@pytest.mark.parametrize("eps", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_programme_is_not_held_back_by_its_outermost_output(eps):
    # Within the reach of two-point randomised response there is no other unbiased channel: it
    # would be called the best one, with 200 times the variance at eps=8.
    mechanism = UnbiasedRandomizer(eps)
    matrix, outputs = mechanism.channel(1.0)
    levels = torch.linspace(-1, 1, 17, dtype=torch.float64)
    variance = float(((outputs[None, :] - levels[:, None]).square() * matrix).sum(1).mean())
    two_points = 1 / math.tanh(eps / 2)
    assert 1.02 < float(outputs.abs().max()) / two_points < 1.6 < REACH
    assert variance < two_points**2 - float(levels.square().mean())
    assert f"{variance:.3g}" == PRINTED.get(eps, f"{variance:.3g}")
    assert variance < (2 * (2 / eps) ** 2) * (0.55 if eps <= 4 else 0.05)
    at = torch.full((20_000,), 0.19, dtype=torch.float64)
    spread = mechanism.release(at, 1.0, seeding.generator(0, "test")).var()
    assert float(spread) < 3 * variance + 0.01


def test_randomiser_refuses_an_eps_that_its_programme_cannot_hold():
    # Its slack of 1e-6 would be all of the budget: a division by zero.
    with pytest.raises(InputError, match="eps must be at least 1e-05, got 1e-06"):
        UnbiasedRandomizer(1e-6)
    with pytest.raises(InputError, match="eps of unbiased_randomizer must be at most 20 or inf"):
        UnbiasedRandomizer(25.0)


@pytest.mark.parametrize("mechanism", EVERY, ids=repr)
def test_infinite_eps_and_infinite_bound(mechanism):
    # No privacy would be noisy, or unbounded labels would be released as if they had a bound.
    values = torch.linspace(-1, 1, 65, dtype=torch.float64)
    free = replace(mechanism, eps=math.inf)
    step = 1.0 / (free.levels - 1) if isinstance(free, RROnBins) else 1e-12
    released = free.release(values, 1.0, seeding.generator(0, "test"))
    assert (released - values).abs().max() <= step + 1e-12
    with pytest.raises(InputError, match="no bound"):
        mechanism.release(values, math.inf, seeding.generator(0, "test"))
