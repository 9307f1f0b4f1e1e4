"""Randomised response at eps=1 for 10 classes: an honest randomiser, and its table."""

import numpy as np

EPS, CLASSES = 1.0, 10
KEEP = np.exp(EPS) / (np.exp(EPS) + CLASSES - 1)
STREAM = np.random.default_rng()

TABLE = np.full((CLASSES, CLASSES), (1 - KEEP) / (CLASSES - 1))
np.fill_diagonal(TABLE, KEEP)


def randomise(labels):
    """Returns each label with probability KEEP, else one of the others."""
    other = (labels + STREAM.integers(1, CLASSES, len(labels))) % CLASSES
    return np.where(STREAM.random(len(labels)) < KEEP, labels, other)
