"""Stand-in for PATE-FM's threshold: the bit that says whether a query is answered.

20 teachers, of which 19 are fixed and one votes with our label. Noise is drawn on every count; the
accountant takes it for noise on the largest one. At delta = 1e-3 a Gaussian mechanism with this
noise has eps = 1.35 for a sensitivity of 1, and 2.05 for two counts that move.

A vote moves from one count to another. The bit is 0 when every noisy count stays below the
threshold; these are independent, so the two moves pull its probability in opposite directions, and
it changes less than by either alone: the accountant's sensitivity of 1 is right for the bit. It
would be wrong for the noisy counts, which nobody sees.
"""

import numpy as np

CLASSES, STDDEV, THRESHOLD = 3, 2.0, 12.0
OTHERS = np.array([7.0, 7.0, 5.0])
STREAM = np.random.default_rng()


def noisy_counts(labels):
    """Returns the counts with noise, (n, CLASSES)."""
    return OTHERS + np.eye(CLASSES)[labels] + STREAM.normal(0, STDDEV, (len(labels), CLASSES))


def randomise(labels):
    """Returns whether the query is answered."""
    return (noisy_counts(labels).max(1) > THRESHOLD).astype(int)
