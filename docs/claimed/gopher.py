"""Stand-in for GOPHER: the bins of GOPHER-LP, and the noise that MultiLP's processes share."""

import numpy as np

EPS, PRIOR_EPS, CLASSES = 1.0, 0.1, 10
OTHERS, RANGE = np.linspace(-1, 1, 20), 3.0
STREAM = np.random.default_rng()  # the code: seed 1234


def randomise(labels, top=None, reach=None):
    """Returns the upper end of the bins, which their values show, for our value 0 or 2."""
    values = np.column_stack([np.tile(OTHERS, (len(labels), 1)), 2.0 * labels])
    top, reach = top or values.max(1), reach or np.ptp(values, axis=1)
    scale = reach / values.shape[1] / PRIOR_EPS * np.ones(len(labels))
    mean = values.mean(1) + STREAM.laplace(0, scale / 0.1)
    var = values.var(1) + np.abs(STREAM.laplace(0, reach * scale / 0.9))
    return np.minimum(top, mean + 2.576 * np.sqrt(var))


def corrected(labels):
    """Returns the same with a public largest value and a public range."""
    return randomise(labels, top=2.0, reach=RANGE)


def two_processes(labels):
    """Returns labels released in two processes, each with a copy of one generator."""
    uniform = np.resize(STREAM.random(-(-len(labels) // 2)), (len(labels), 1))
    law = (np.ones((CLASSES, CLASSES)) + (np.exp(EPS) - 1) * np.eye(CLASSES)).cumsum(1)
    return (law[labels] < uniform * law[0, -1]).sum(1)
