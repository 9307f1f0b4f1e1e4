"""LabelDP-Pro: the accounting of secret batches, against integrals and simulations of its own."""

import math
from dataclasses import replace

import pytest
import torch

from labeldp.mechanisms import LabelDPPro, NoisyMoments, PateFM
from labeldp.mechanisms.moments import SENSITIVITY, gaussian_stddev, poisson_delta, poisson_stddev
from labeldp.mechanisms.noise import SecretGenerator, step_of
from labeldp.support.validate import InputError


@pytest.mark.parametrize(("eps", "steps"), [(0.1, 50), (2.0, 1)])
def test_everybody_in_every_batch_is_one_gaussian_answer(eps, steps):
    # T equal answers are one with noise smaller by sqrt(T): the closed form of noisy_moments.
    expected = SENSITIVITY * math.sqrt(steps) * gaussian_stddev(eps, 1e-5)
    assert poisson_stddev(eps, 1e-5, steps, 1.0) == pytest.approx(expected, rel=3e-4)


def test_delta_of_one_step_is_that_of_an_integral_over_its_outputs():
    # Two entries, one for either class: a mixture in one of them, plain noise in the other.
    eps, stddev, share = 0.7, 0.9, 0.3
    grid = torch.linspace(-9, 10, 3001, dtype=torch.float64)
    plain = torch.distributions.Normal(0.0, stddev).log_prob(grid).exp()
    mixed = (1 - share) * plain + share * torch.distributions.Normal(1.0, stddev).log_prob(
        grid
    ).exp()
    one, other = mixed[:, None] * plain[None, :], plain[:, None] * mixed[None, :]
    found = (one - math.exp(eps) * other).clamp_min(0).sum() * (grid[1] - grid[0]) ** 2
    assert poisson_delta(eps, stddev, 1, share) == pytest.approx(float(found), rel=1e-3)
    # As if one example were only added or removed, delta would be less than half.
    alone = (mixed - math.exp(eps) * plain).clamp_min(0).sum() * (grid[1] - grid[0])
    assert poisson_delta(eps, stddev, 1, share) > 1.1 * float(alone)


def test_delta_of_many_steps_is_that_of_simulated_losses():
    # Composition, by draws of the privacy loss itself.
    eps, stddev, share, steps = 0.5, 1.2, 0.2, 10
    stream = torch.Generator().manual_seed(0)
    shape = (2, 100_000, steps)
    noise = stddev * torch.randn(shape, generator=stream, dtype=torch.float64)
    own = noise[0] + (torch.rand(shape[1:], generator=stream) < share)

    def ratio(output):
        return (1 - share + share * ((2 * output - 1) / (2 * stddev**2)).exp()).log()

    loss = (ratio(own) - ratio(noise[1])).sum(1)
    excess = (1 - (eps - loss).exp()).clamp_min(0)
    error = 4 * float(excess.std()) / math.sqrt(len(excess))
    assert poisson_delta(eps, stddev, steps, share) == pytest.approx(
        float(excess.mean()), abs=error
    )
    assert poisson_delta(eps, 0.97 * stddev, steps, share) > float(excess.mean()) + error


def test_noise_is_the_least_that_has_eps_and_delta():
    stddev = poisson_stddev(1.0, 1e-5, 20, 0.1)
    assert poisson_delta(1.0, stddev, 20, 0.1) <= 1e-5
    assert poisson_delta(1.0, 0.999 * stddev, 20, 0.1) > 1e-5
    # Secret batches save much, but nothing beyond one answer about everybody.
    per_example = stddev / 0.1 / math.sqrt(20)
    assert SENSITIVITY * gaussian_stddev(1.0, 1e-5) < per_example
    assert stddev < 0.2 * SENSITIVITY * math.sqrt(20) * gaussian_stddev(1.0, 1e-5)
    assert poisson_stddev(math.inf, 1e-5, 20, 0.1) == 0


def test_small_batches_are_accounted_for_in_seconds(monkeypatch):
    # Noise as little as the share took a grid of losses that was computed for minutes.
    tried = []

    def delta(eps, stddev, steps, share):
        tried.append(stddev)
        return poisson_delta(eps, stddev, steps, share)

    monkeypatch.setattr("labeldp.mechanisms.moments.poisson_delta", delta)
    stddev = poisson_stddev(1.0, 1e-5, 2, 0.05)
    assert min(tried) > 0.79 * stddev
    assert poisson_delta(1.0, 0.999 * stddev, 2, 0.05) > 1e-5


def test_each_step_has_a_batch_and_noise_of_its_own():
    labels = torch.arange(3000) % 3
    rows = torch.nn.functional.normalize(torch.randn(3000, 2, generator=torch.Generator()))
    exact = torch.stack([rows[labels == label].double().sum(0) for label in range(3)], 1)
    stream = torch.Generator().manual_seed(0)
    sums = LabelDPPro(eps=math.inf, steps=200, share=0.3, rows=rows)(labels, 3, stream)
    assert sums.shape == (200, 2, 3) and len(sums[:, 0, 0].unique()) == 200
    # Poisson batches: each row is in or out on its own.
    spread = torch.stack([rows[labels == label].double().square().sum(0) for label in range(3)], 1)
    stddev = (0.3 * 0.7 * spread).sqrt()
    away = (sums - 0.3 * exact) / stddev
    assert abs(float(away.mean())) < 4 / math.sqrt(away.numel())
    assert float(away.std()) == pytest.approx(1, rel=0.1)

    mechanism = LabelDPPro(eps=1.0, steps=400, share=0.1, rows=torch.zeros(1, 2))
    noisy = mechanism(labels[:1], 3, stream)
    assert float(noisy.std()) == pytest.approx(mechanism.stddev, rel=0.06)
    assert float(noisy[1:].flatten() @ noisy[:-1].flatten()) < 4 * mechanism.stddev**2 * 50


def test_long_rows_are_refused():
    with pytest.raises(InputError, match="length at most 1, got one of 3"):
        LabelDPPro(eps=1.0, rows=3 * torch.eye(2))


class Asking:
    """A descent that moves nowhere, whose gradients are given, one for each label."""

    def __init__(self, under):
        self.under, self.weights, self.answers = under, torch.zeros(under.shape[1]), []

    def gradients(self, indices, labels):
        return self.under[labels]

    def step(self, gradient):
        self.answers.append(gradient)


def test_gradients_are_cut_off_at_length_1_and_what_is_no_number_counts_nothing():
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [math.inf, 0.0], [math.nan, 1.0], [1e10, 0.0]])
    found = LabelDPPro(eps=1.0).clipped_sum(rows)
    assert torch.allclose(found, torch.tensor([0.6 + 0.3 + 1.0, 0.8 + 0.4]).double())


def test_a_descent_is_answered_with_noisy_means_of_secret_batches():
    labels = torch.arange(3000) % 2
    asking = Asking(torch.tensor([[2.0, 0.0], [0.0, 0.5]]))
    stream = torch.Generator().manual_seed(0)
    exact = LabelDPPro(eps=math.inf, steps=300, share=0.3, descent=asking)
    weights = exact(labels, 2, stream)
    assert torch.equal(weights, asking.weights)
    answers = torch.stack(asking.answers)
    spread = math.sqrt(1500 * 0.3 * 0.7) / (0.3 * 3000)
    away = (answers - torch.tensor([0.5, 0.25])) / torch.tensor([spread, spread / 2])
    assert abs(float(away.mean())) < 4 / math.sqrt(away.numel())
    assert float(away.std()) == pytest.approx(1, rel=0.15)

    noisy, asking = LabelDPPro(eps=1.0, steps=50, share=0.1), Asking(torch.zeros(2, 400))
    replace(noisy, descent=asking)(labels[:10], 2, stream)  # of gradients that are 0
    found = 0.1 * 10 * torch.stack(asking.answers)
    assert float(found.std()) == pytest.approx(noisy.descent_stddev, rel=0.03)
    assert noisy.descent_stddev == pytest.approx(math.sqrt(2) * noisy.stddev)
    asking = Asking(torch.full((2, 400), 0.01))
    replace(noisy, descent=asking)(labels[:10], 2, SecretGenerator())
    steps = torch.stack(asking.answers) / step_of(noisy.descent_stddev)
    assert torch.equal(steps, steps.round())  # or their last bits would tell the sums


@pytest.mark.parametrize("angle", [0.5, 1.0])
def test_opposed_gradients_cost_no_more_than_stated(angle):
    # Exact, for one step, by an integral: gradients at right angles, and in opposite directions.
    eps, share = 0.7, 0.3
    stddev = poisson_stddev(eps, 1e-2, 1, share)
    grid = torch.linspace(-8, 8, 501, dtype=torch.float64)
    plane = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1)

    def delta(noise):
        plain = torch.distributions.Normal(0.0, noise)

        def density(towards):
            there = torch.tensor([math.cos(towards), math.sin(towards)], dtype=torch.float64)
            moved = plain.log_prob(plane - there).sum(-1).exp()
            return (1 - share) * plain.log_prob(plane).sum(-1).exp() + share * moved

        excess = (density(0.0) - math.exp(eps) * density(angle * math.pi)).clamp_min(0)
        return float(excess.sum() * (grid[1] - grid[0]) ** 2)

    assert delta(math.sqrt(2) * stddev) < 0.5e-2
    if angle == 0.5:  # rows that move apart, whose noise is the least
        assert delta(stddev) == pytest.approx(1e-2, rel=0.01)
    else:
        assert delta(stddev) > 1.2e-2


@pytest.mark.parametrize(
    ("kind", "parameters", "says"),
    [
        (LabelDPPro, {"share": 1.5}, r"share must be a number >= 0.0001 and <= 1, got 1.5"),
        (LabelDPPro, {"share": 1e-9}, r"share must be a number >= 0.0001 and <= 1, got 1e-09"),
        (LabelDPPro, {"delta": 1e-300}, r"delta must be a number >= 1e-12 and <= 0.01, got 1e-300"),
        (LabelDPPro, {"delta": 0.09}, r"delta must be a number >= 1e-12 and <= 0.01, got 0.09"),
        (NoisyMoments, {"delta": 1e-300}, r"delta must be a number >= 1e-12 and < 1, got 1e-300"),
        (PateFM, {"delta": 1e-300}, r"delta must be a number >= 1e-12 and < 1, got 1e-300"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused_before_labels_are_open(kind, parameters, says):
    # An error of the release would be withheld as one that may tell of labels.
    with pytest.raises(InputError, match=f"mechanism.{says}"):
        kind(eps=1.0, **parameters)
