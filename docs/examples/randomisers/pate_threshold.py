"""The threshold of PATE-FM: noise on every count of votes, accounted as noise on the largest.

Source: Malek et al. (2021), label_dp_antipodes, their code of PATE-FM. A query is answered if
max_j (n_j + N(0, s^2)) > T, with fresh noise on every count; the accountant takes it for
max_j n_j + N(0, s^2), a Gaussian mechanism of sensitivity 1. Here: 20 teachers, of which 19 are
fixed and one's label is ours; s = 2; delta = 1e-3. A Gaussian mechanism of sensitivity 1 and s = 2
has eps = 1.35 there, one of sensitivity sqrt(2), which two counts that move have, 2.05.

What leaves is one bit. Adding a vote to one count changes the bit as little as adding one to the
largest: the noise of the other counts is independent, and the bit a post-processing of that count
plus noise. Moving a vote changes two counts in opposite directions, so that the bit changes less
than by either alone. The accountant is right for the bit (our argument), and `bit` passes. It is
wrong for the noisy counts themselves, which nobody sees: `noisy_counts` was refuted in 29 of 30
tries of a million draws each.

    labeldp verify <this file>:bit --classes 3 --eps 1.36 --delta 0.001
"""

import numpy as np

CLASSES, STDDEV, THRESHOLD = 3, 2.0, 12.0
OTHERS = np.array([7.0, 7.0, 5.0])
STREAM = np.random.default_rng()


def noisy_counts(labels):
    """Returns the counts with noise, (n, CLASSES)."""
    counts = OTHERS + np.eye(CLASSES)[labels]
    return counts + STREAM.normal(0, STDDEV, counts.shape)


def bit(labels):
    """Returns whether the query is answered."""
    return (noisy_counts(labels).max(1) > THRESHOLD).astype(int)
