"""Stand-in for ALIBI: facebookresearch/label_dp_antipodes, and its copy in DPMLBench."""

import numpy as np

EPS, CLASSES = 1.0, 10
SIGMA = 2 * np.sqrt(2) / EPS
"""The standard deviation, which is the option `--sigma`; the scale is 2 / EPS."""
STREAM = np.random.default_rng()


def randomise(labels):
    """Returns one-hot labels with Laplace noise, the difference of two exponentials."""
    scale, shape = SIGMA / np.sqrt(2), (len(labels), CLASSES)
    noise = STREAM.exponential(scale, shape) - STREAM.exponential(scale, shape)
    return np.eye(CLASSES)[labels] + noise
