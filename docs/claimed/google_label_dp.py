"""Stand-in for google-research/label-dp: RRWithPrior, and the two stages of LP-2ST."""

import numpy as np

EPS, CLASSES = 1.0, 10
STREAM = np.random.default_rng()  # the code: seeds 2019 and 2020
PRIOR = np.array([0.30, 0.20, 0.15, 0.10, 0.05, 0.05, 0.05, 0.04, 0.03, 0.03])


def randomise(labels, prior=PRIOR):
    """Returns released labels; k maximises the score of the code, with k - 2 for k - 1."""
    order = np.argsort(-prior)
    k = np.argmax(np.cumsum(prior[order]) / (1 + (np.arange(CLASSES) - 1) * np.exp(-EPS))) + 1
    table = np.full((CLASSES, CLASSES), np.exp(-EPS))
    np.fill_diagonal(table, 1.0)
    table[:, order[k:]] = 0
    table /= table.sum(1, keepdims=True)
    return (table.cumsum(1)[labels] < STREAM.random((len(labels), 1))).sum(1).clip(0, CLASSES - 1)


def stages(labels):
    """Returns half of the labels by plain RR, the others under a prior learnt from that half."""
    released, first = labels.copy(), STREAM.random(len(labels)) < 0.5
    released[first] = randomise(labels[first], np.full(CLASSES, 1 / CLASSES))
    shares = (np.bincount(released[first], minlength=CLASSES) + 1) ** 2.0  # temperature 0.5
    released[~first] = randomise(labels[~first], shares / shares.sum())
    return released
