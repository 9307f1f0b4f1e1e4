"""Stand-in for mukai5566/Label_DP_codes: binary labels, kept with probability theta."""

import numpy as np

EPS = 1.0
STREAM = np.random.default_rng()  # the code: np.random.seed(r) for r = 0 .. 49


def randomise(labels):
    """Returns released labels."""
    change = STREAM.uniform(0, 1, len(labels)) <= np.exp(EPS) / (np.exp(EPS) + 1)
    return change * labels + (1 - change) * (1 - labels)
