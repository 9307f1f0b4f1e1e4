"""Stand-in for the BlockRR authors' randomised labels, with blocks of 6 and 4 classes and l = 2."""

import numpy as np

EPS, CLASSES, MAJORITY, FAVOURED = 1.0, 10, 6, 2
STREAM = np.random.default_rng()


def law():
    """Returns the probabilities of each release, row = true label; the majority comes first."""
    e, one, two, favoured = np.exp(EPS), MAJORITY, CLASSES - MAJORITY, FAVOURED
    bottom = (e + one - 1) * (e + two - 1) - (one - favoured) * two
    beta = (e - 1 + favoured * two / CLASSES) / bottom
    gamma = (e + favoured - 1 - favoured * (e + one - 1) / CLASSES) / bottom
    table = np.tile(np.where(np.arange(CLASSES) < one, beta, gamma), (CLASSES, 1))
    table[one:, :favoured] = 1 / CLASSES
    table[np.arange(CLASSES), np.arange(CLASSES)] *= e
    return table / table.sum(1, keepdims=True)


def randomise(labels):
    """Returns released labels."""
    below = law().cumsum(1)[labels] < STREAM.random((len(labels), 1))
    return below.sum(1).clip(0, CLASSES - 1)
