"""Stand-in for DPMLBench's LP-MST: RRTop-k that draws "another label" from all classes."""

import numpy as np

EPS, CLASSES, TOP = 1.0, 10, 3
STREAM = np.random.default_rng()
KEEP = np.exp(EPS) / (np.exp(EPS) + TOP - 1)


def randomise(labels):
    """Returns released labels; the TOP most likely classes are 0, 1, 2."""
    other = (labels + STREAM.integers(1, CLASSES, len(labels))) % CLASSES  # must be one of TOP
    stays = (labels < TOP) & (STREAM.random(len(labels)) < KEEP)
    return np.where(stays, labels, other)


def corrected(labels):
    """Returns the same with the other label from the TOP most likely classes."""
    other = (labels + STREAM.integers(1, TOP, len(labels))) % TOP
    inside = np.where(STREAM.random(len(labels)) < KEEP, labels, other)
    return np.where(labels < TOP, inside, STREAM.integers(0, TOP, len(labels)))
