"""ALIBI (Malek Esmaeili et al. 2021): density, scale, retention, and RAPPOR's simulation of it."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp, laplace

from labeldp.mechanisms import AdditiveLaplace, Rappor
from labeldp.mechanisms import laplace as laplace_module
from labeldp.mechanisms.laplace import argmax_retention
from labeldp.support import seeding
from labeldp.support.validate import InputError


def test_laplace_likelihood_is_the_density():
    """If this fails, the O(K) form is not the O(K^2) one."""
    mechanism, num_classes = AdditiveLaplace(eps=1.3), 7
    labels = torch.arange(num_classes)
    released = mechanism.release(labels, num_classes, seeding.generator(0, "test"))
    offsets = released.double()[:, None, :] - torch.eye(num_classes, dtype=torch.float64)
    expected = laplace(scale=2 / 1.3).logpdf(offsets.numpy()).sum(2)
    found = mechanism.log_likelihood(released, num_classes)
    assert np.allclose(found.numpy(), expected, atol=1e-10)


def test_later_blocks_add_noise_to_their_own_labels(monkeypatch):
    """If this fails, examples after the first block release those of others."""
    labels = torch.arange(10).repeat(3)
    released, shapes = {}, []
    draw = laplace_module.one_word_laplace
    monkeypatch.setattr(
        laplace_module,
        "one_word_laplace",
        lambda shape, *rest: shapes.append(shape) or draw(shape, *rest),
    )
    for entries in (1, 77, 10_000):
        monkeypatch.setattr(laplace_module, "ENTRIES_AT_ONCE", entries)
        generator = seeding.generator(0, "blocks")
        released[entries] = AdditiveLaplace(eps=30.0).release(labels, 10, generator)
        assert torch.equal(released[entries].argmax(1), labels)
    assert shapes == [(1, 10)] * 30 + [(7, 10)] * 4 + [(2, 10), (30, 10)]


def test_exact_retention_is_that_of_draws():
    """If this fails, the quadrature is of another randomiser than the one that releases."""
    for eps, num_classes in ((1.0, 2), (2.0, 10), (6.0, 100)):
        mechanism = AdditiveLaplace(eps=eps)
        labels = torch.zeros(100_000, dtype=torch.int64)
        released = mechanism.release(labels, num_classes, seeding.generator(0, "retention"))
        exact = argmax_retention(mechanism.scale, num_classes)
        bound = 4 * math.sqrt(exact * (1 - exact) / len(labels))
        assert float((released.argmax(1) == 0).double().mean()) == pytest.approx(exact, abs=bound)
    assert argmax_retention(0.0, 10) == 1
    assert argmax_retention(1e9, 10) == pytest.approx(0.1, abs=1e-6)
    with pytest.raises(InputError, match="scale must be a number >= 0, got -1"):
        argmax_retention(-1.0, 10)


@pytest.mark.parametrize("eps", [1.0, 4.0])
def test_rappor_simulates_alibi(eps):
    """If this fails, RAPPOR's bits do not carry all that ALIBI's reals say."""
    labels = torch.zeros(20_000, dtype=torch.int64)
    bits = Rappor(eps=eps).release(labels, 2, seeding.generator(0, "bits")).numpy()
    reals = AdditiveLaplace(eps=eps).release(labels, 2, seeding.generator(0, "reals")).numpy()
    keep, flip = 1 - Rappor(eps=eps).p_drop, Rappor(eps=eps).p_flip
    noise = laplace(scale=2 / eps)
    grid = np.linspace(-60 / eps, 1 + 60 / eps, 20_001)
    uniform = np.random.default_rng(0).random(bits.shape)
    cumulative = {
        1: (keep * noise.cdf(grid - 1) - flip * noise.cdf(grid)) / (keep - flip),
        0: (keep * noise.cdf(grid) - flip * noise.cdf(grid - 1)) / (keep - flip),
    }
    for column in (0, 1):
        simulated = np.where(
            bits[:, column] == 1,
            np.interp(uniform[:, column], cumulative[1], grid),
            np.interp(uniform[:, column], cumulative[0], grid),
        )
        assert ks_2samp(simulated, reals[:, column]).pvalue > 1e-3
        # The same test notices one bit's distribution taken for the other's.
        swapped = np.interp(uniform[:, column], cumulative[column], grid)
        assert ks_2samp(swapped, reals[:, column]).pvalue < 1e-3
