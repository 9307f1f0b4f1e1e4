"""Noisy moments: the noise that the claim needs, once, and what least squares makes of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri

from labeldp.mechanisms import LabelDPPro, NoisyMoments
from labeldp.mechanisms.moments import SENSITIVITY, gaussian_delta, gaussian_stddev
from labeldp.mechanisms.noise import SecretGenerator
from labeldp.store import BudgetError, LabelStore
from labeldp.support.validate import InputError


@pytest.mark.parametrize("eps", [0.01, 0.3, 1, 4, 20])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_noise_is_the_least_that_has_eps_and_delta(eps, delta):
    # Less noise breaks the promise; the classical sqrt(2 ln(1.25/delta))/eps is wrong above 1.
    stddev = gaussian_stddev(eps, delta)
    assert gaussian_delta(eps, stddev) == pytest.approx(delta, rel=1e-6)
    assert gaussian_delta(eps, 0.97 * stddev) > 1.01 * delta
    assert gaussian_stddev(math.inf, delta) == 0
    if eps < 1:
        assert stddev < math.sqrt(2 * math.log(1.25 / delta)) / eps


def test_delta_is_that_of_the_privacy_loss():
    # The closed form, against an integral over the outputs of two neighbours.
    stddev, eps = 1.7, 0.8
    grid = torch.linspace(-30, 30, 400_001, dtype=torch.float64)
    one, other = (torch.distributions.Normal(mean, stddev).log_prob(grid) for mean in (0.0, 1.0))
    found = (one.exp() - math.exp(eps) * other.exp()).clamp_min(0).sum() * (grid[1] - grid[0])
    assert gaussian_delta(eps, stddev) == pytest.approx(float(found), rel=1e-4)


def test_delta_is_not_the_chance_that_the_loss_exceeds_eps():
    # The glossary says so: that chance is 16 times as large.
    eps, stddev = 1.0, gaussian_stddev(1.0, 1e-5)
    loss = 1 / (2 * stddev**2)  # the mean of the privacy loss, whose deviation is 1 / stddev
    chance = float(ndtr(-(eps - loss) * stddev))
    assert chance == pytest.approx(1.6e-4, rel=0.02)


@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(0), SecretGenerator()])
def test_draws_have_the_stated_noise_around_the_true_sums(generator):
    labels = torch.arange(600) % 3
    rows = torch.nn.functional.normalize(torch.randn(600, 4, generator=torch.Generator()))
    mechanism = NoisyMoments(eps=1.0, rows=rows)
    exact = torch.stack([rows[labels == label].double().sum(0) for label in range(3)], 1)
    answers = (mechanism(labels, 3, generator) for _ in range(400))
    noise = torch.cat([(answer - exact).flatten() for answer in answers])
    assert noise.std() == pytest.approx(SENSITIVITY * gaussian_stddev(1.0, 1e-5), rel=0.05)
    assert abs(float(noise.mean())) < 6 * mechanism.stddev / math.sqrt(len(noise))


def explained(outputs, sums, stddev):
    """Which share of outputs is a sum plus a value that normal noise of 53 bits can have."""
    nearest = np.round((ndtr((outputs - sums) / stddev) - 2.0**-54) * 2**53)
    found = np.zeros(outputs.shape, bool)
    for near in range(-4, 5):
        uniform = np.minimum((nearest + near) * 2.0**-53 + 2.0**-54, 1 - 2.0**-53)
        found |= sums + stddev * ndtri(uniform) == outputs
    return found.mean()


@pytest.mark.parametrize("kind", [NoisyMoments, LabelDPPro])
@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(0), SecretGenerator()])
def test_secret_sums_do_not_show_in_their_last_bits_what_noise_was_added_to(kind, generator):
    # Whoever knew all labels but one read that one off at any eps: 40 of 40 at eps=0.01.
    mechanism = NoisyMoments(0.01) if kind is NoisyMoments else LabelDPPro(0.01, steps=1, share=1)
    random = torch.Generator().manual_seed(1)
    rows = torch.nn.functional.normalize(torch.randn(500, 60, generator=random).double())
    labels = torch.randint(3, (500,), generator=random)
    outputs = replace(mechanism, rows=rows)(labels, 3, generator).reshape(60, 3).numpy()
    shares = []
    for label in range(3):
        guessed = labels.clone()
        guessed[0] = label
        sums = torch.zeros((3, 60), dtype=torch.float64).index_add_(0, guessed, rows)
        shares.append(explained(outputs, sums.T.numpy(), mechanism.stddev))
    if isinstance(generator, SecretGenerator):
        assert max(shares) < 0.8
    else:  # what the attack finds without rounding
        assert np.argmax(shares) == labels[0] and max(shares) == 1


def test_a_replaced_label_moves_the_sums_by_the_sensitivity_at_most():
    rows = torch.nn.functional.normalize(torch.randn(50, 4, generator=torch.Generator()))
    labels = torch.arange(50) % 3
    other = labels.clone()
    other[7] = (other[7] + 1) % 3
    generators = (torch.Generator().manual_seed(1) for _ in range(2))
    one, two = (
        NoisyMoments(eps=math.inf, rows=rows)(each, 3, generator)
        for each, generator in zip((labels, other), generators, strict=True)
    )
    assert float((one - two).norm()) == pytest.approx(SENSITIVITY, rel=1e-6)


@pytest.mark.parametrize("mechanism", [NoisyMoments(eps=0.1), LabelDPPro(eps=0.1)])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_row_that_is_no_number_gives_no_label_away(mechanism, value):
    # Its class had the sum NaN, whatever the noise: all labels, exactly, for eps=0.1.
    rows = 0.1 * torch.eye(10)
    rows[3, 3] = value
    store = LabelStore(torch.arange(10) % 3, 3).open(0.1, seed=0)
    with pytest.raises(InputError, match=r"rows must (be numbers|have length at most 1)"):
        store.release(replace(mechanism, rows=rows))
    assert store.eps_spent == 0


def test_the_store_books_it_once_and_refuses_long_rows():
    store = LabelStore(torch.arange(30) % 3, 3).open(1.0, seed=0)
    with pytest.raises(InputError, match="length at most 1, got one of 2"):
        store.release(NoisyMoments(eps=1.0, rows=2 * torch.eye(30)))
    with pytest.raises(InputError, match=r"got one of 1\.001"):  # the noise is that of length 1
        store.release(NoisyMoments(eps=1.0, rows=1.001 * torch.eye(30)))
    assert store.eps_spent == 0
    assert store.release(NoisyMoments(eps=1.0, rows=torch.eye(30))).shape == (30, 3)
    assert (store.eps_spent, store.trust) == (1.0, "central")
    with pytest.raises(BudgetError):
        store.release(NoisyMoments(eps=1.0, rows=torch.eye(30)))
