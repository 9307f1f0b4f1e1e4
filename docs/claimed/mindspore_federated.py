"""Stand-in for MindSpore Federated's LabelDP on one-hot labels."""

import numpy as np

EPS, CLASSES = 1.0, 10
STREAM = np.random.default_rng()


def randomise(labels):
    """Returns the place of the largest entry of EPS * one-hot + Laplace noise of scale 1."""
    return np.argmax(
        EPS * np.eye(CLASSES)[labels] + STREAM.laplace(0, 1, (len(labels), CLASSES)), axis=1
    )
