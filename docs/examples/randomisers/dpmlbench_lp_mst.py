"""RRTop-k as DPMLBench's LP-MST draws it, rewritten as a stand-in: it claims eps=1, and has none.

Source: DPMLBench (Wei et al., 2023, "DPMLBench: holistic evaluation of differentially private
machine learning"), the released code of LP-MST. A label among the k most likely stays with
probability e^eps / (e^eps + k - 1), as it should. But "another label" is drawn from all K - 1
others, where it must come from the k. A label outside the k is replaced by one of the k, and so
never released as itself: the ratio is infinite.
"""

import numpy as np

EPS, CLASSES, TOP = 1.0, 10, 3
STREAM = np.random.default_rng()
KEEP = np.exp(EPS) / (np.exp(EPS) + TOP - 1)


def randomise(labels):
    """Returns released labels; the TOP most likely classes are 0, 1, 2."""
    stays = STREAM.random(len(labels)) < KEEP
    other = (labels + STREAM.integers(1, CLASSES, len(labels))) % CLASSES  # the fault
    inside = np.where(stays, labels, other)
    return np.where(labels < TOP, inside, STREAM.integers(0, TOP, len(labels)))


def corrected(labels):
    """Returns the same with the other label from the top k."""
    stays = STREAM.random(len(labels)) < KEEP
    other = (labels + STREAM.integers(1, TOP, len(labels))) % TOP
    inside = np.where(stays, labels, other)
    return np.where(labels < TOP, inside, STREAM.integers(0, TOP, len(labels)))
