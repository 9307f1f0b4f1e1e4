"""Stand-in for OpenDP's make_randomized_response; it states ln(p (K - 1) / (1 - p)) as its eps."""

import numpy as np

EPS, CLASSES = 1.0, 10
HONEST = np.exp(EPS) / (np.exp(EPS) + CLASSES - 1)
STREAM = np.random.default_rng()


def randomise(labels):
    """Returns released labels; a lie is drawn from the other categories."""
    lie = STREAM.integers(0, CLASSES - 1, len(labels))
    lie += lie >= labels
    return np.where(STREAM.random(len(labels)) < HONEST, labels, lie)
