"""Stand-in for the LP-1ST with a prior of jinpz/label_differential_privacy.

The prior comes from a histogram of all labels with discrete Laplace noise, at PRIOR_EPS; the file
of priors is public. Two classes, in a cluster of 10,000 other labels. What is returned here is one
bit: whether both noisy counts and the released label speak for class 0.
"""

import numpy as np

EPS, PRIOR_EPS, OTHERS = 0.1, 0.05, 5000
STREAM = np.random.default_rng()


def randomise(labels, eps=EPS):
    """Returns the bit for each data set with our label 0 or 1."""
    noise = STREAM.geometric(1 - np.exp(-PRIOR_EPS / 2), (2, len(labels), 2)) - 1
    counts = OTHERS + np.eye(2)[labels] + noise[0] - noise[1]
    keep = np.exp(eps) / (np.exp(eps) + 1)
    single = counts.max(1) / counts.sum(1) >= keep  # k = 1: the most likely class leaves
    released = np.where(STREAM.random(len(labels)) < keep, labels, 1 - labels)
    released = np.where(single, counts.argmax(1), released)
    return ((counts[:, 0] > OTHERS) & (counts[:, 1] <= OTHERS) & (released == 0)).astype(int)


def corrected(labels):
    """Returns the same with the prior's share taken off eps."""
    return randomise(labels, EPS - PRIOR_EPS)
