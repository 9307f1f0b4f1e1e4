"""Stand-in for multi-freq-ldpy: GRR_Client and UE_Client (OUE)."""

import numpy as np

EPS, CLASSES = 1.0, 10
STREAM = np.random.default_rng()


def randomise(labels):
    """Returns labels released by GRR_Client."""
    keeps = STREAM.binomial(1, np.exp(EPS) / (np.exp(EPS) + CLASSES - 1), len(labels))
    return np.where(keeps, labels, (labels + STREAM.integers(1, CLASSES, len(labels))) % CLASSES)


def unary(labels):
    """Returns bits released by UE_Client with optimal=True."""
    probability = np.where(np.eye(CLASSES)[labels] == 1, 0.5, 1 / (np.exp(EPS) + 1))
    return (STREAM.random(probability.shape) <= probability).astype(int)
