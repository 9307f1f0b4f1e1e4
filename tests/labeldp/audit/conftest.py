"""Noise of randomisers that others wrote is the same in every run of the tests."""

import itertools

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def repeatable_noise(monkeypatch):
    """A stream that nobody seeded takes the next number of a count, not the system's entropy.

    A bound holds with 99 % confidence, so a test on fresh noise would fail now and then.
    """
    seeded, seeds = np.random.default_rng, itertools.count()
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed=None: seeded(next(seeds) if seed is None else seed)
    )
