"""Stand-in for the prior in RPWithPrior's notebooks: all clear labels, and one noisy batch.

Eight people's labels are fixed, the ninth is ours, and the tenth fills the last batch alone. The
released labels lie between two nodes of the prior's histogram, mean + i * std; what is returned
here is mean and std, and the search for i is left out.
"""

import numpy as np

EPS = 2.0
OTHERS, LAST = [0.0, 0.1, 0.2, 0.2, 0.3, 0.5, 0.8, 1.0], 0.4
STREAM = np.random.default_rng()


def randomise(labels, fault=True):
    """Returns mean and std of the prior for data sets with our label 0 or 1."""
    clear = np.array([[*OTHERS, label, LAST] for label in labels])
    noisy = clear + STREAM.laplace(0, 3 / EPS, clear.shape)  # eps = EPS / 3
    used = np.column_stack([clear, noisy[:, -1]]) if fault else noisy
    used = used.clip(0, 1)
    return np.column_stack([used.mean(1), used.std(1, ddof=1)]).round(9)


def corrected(labels):
    """Returns the same with noise on every label, and no clear one."""
    return randomise(labels, fault=False)
