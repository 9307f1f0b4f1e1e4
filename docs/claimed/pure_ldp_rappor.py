"""Stand-in for pure-LDP's RAPPOR: a bit that is set before the noise stays set."""

import numpy as np

EPS, CLASSES = 1.0, 10
FLIP = round(1 / (0.5 * np.exp(EPS / 2) + 0.5), 2) / 2
STREAM = np.random.default_rng()


def randomise(labels, fault=True):
    """Returns bits, one for each class: one hash function without collisions, one cohort."""
    own = np.eye(CLASSES)[labels] == 1
    flips = STREAM.random(own.shape) < FLIP
    return own | flips if fault else own ^ flips


def corrected(labels):
    """Returns bits of which each is flipped with the same probability."""
    return randomise(labels, fault=False)
