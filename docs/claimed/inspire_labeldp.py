"""Stand-in for inspire-group/LabelDP: randomised response from one uniform number a label."""

import numpy as np

EPS, CLASSES = 1.0, 10
STREAM = np.random.default_rng()  # the code: np.random.seed(42)


def randomise(labels):
    """Returns released labels: the rest of the uniform number chooses among the others."""
    keep, other = np.exp(EPS), 1.0
    keep, other = np.array([keep, other]) / (keep + CLASSES - 1)
    uniform = STREAM.random(len(labels))
    place = ((uniform - keep) / other).astype(int).clip(0, CLASSES - 2)
    place += place >= labels  # the place in the list of classes without the true one
    return np.where(uniform < keep, labels, place)
