"""Stand-in for pure-LDP: direct encoding and unary encoding, now and before 1.2.0."""

import numpy as np

EPS, CLASSES = 1.0, 10
STREAM = np.random.default_rng()
KEEP = np.exp(EPS / 2) / (np.exp(EPS / 2) + 1)


def randomise(labels):
    """Returns labels released by DEClient."""
    other = STREAM.integers(0, CLASSES - 1, len(labels))
    other = np.where(other == labels, CLASSES - 1, other)
    keeps = STREAM.random(len(labels)) < np.exp(EPS) / (np.exp(EPS) + CLASSES - 1)
    return np.where(keeps, labels, other)


def unary(labels):
    """Returns bits released by UEClient: the true bit is drawn apart from the others."""
    flips = STREAM.random((len(labels), CLASSES)) < 1 - KEEP
    kept = STREAM.random((len(labels), 1)) < KEEP
    return np.where(np.eye(CLASSES)[labels] == 1, kept, flips)


def unary_before(labels):
    """Returns bits released by UEClient before 1.2.0: the true bit has two chances to be set."""
    return unary(labels) | (np.eye(CLASSES)[labels] * STREAM.random((len(labels), 1)) > KEEP)
