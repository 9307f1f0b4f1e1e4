"""Stand-in for diffprivlib's Binary mechanism."""

import numpy as np

EPS = 1.0
STREAM = np.random.default_rng()


def randomise(labels):
    """Returns labels 0 and 1; flipped where a uniform number on [0, e^eps + 1) exceeds e^eps."""
    uniform = STREAM.random(len(labels)) * (np.exp(EPS) + 1)
    return np.where(uniform > np.exp(EPS), 1 - labels, labels)
