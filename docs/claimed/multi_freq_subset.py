"""Stand-in for multi-freq-ldpy's SS_Client: a subset in an array, the true label first."""

import numpy as np

EPS, CLASSES = 1.0, 10
SIZE = max(1, round(CLASSES / (np.exp(EPS) + 1)))
KEEP = SIZE * np.exp(EPS) / (SIZE * np.exp(EPS) + CLASSES - SIZE)
STREAM = np.random.default_rng()


def randomise(labels):
    """Returns SIZE labels for each label, in the order of the code."""
    others = np.argsort(STREAM.random((len(labels), CLASSES - 1)), axis=1)[:, :SIZE]
    others += others >= labels[:, None]
    keeps = STREAM.random((len(labels), 1)) <= KEEP
    return np.where(keeps, np.column_stack([labels, others[:, 1:]]), others)


def corrected(labels):
    """Returns the same subsets in the order of classes."""
    return np.sort(randomise(labels), axis=1)
