"""Stand-in for the staircase noise in the codes of BlockRR and RPWithPrior."""

import numpy as np

EPS, SENSITIVITY = 1.0, 1.0
GAMMA = 1 / (1 + np.exp(EPS / 2))
STREAM = np.random.default_rng()


def noise(count, switch):
    """Returns staircase noise; `switch` turns the Bernoulli b into the weight of the outer part."""
    step = STREAM.geometric(1 - np.exp(-EPS), count) - 1
    uniform = STREAM.random(count)
    inner_part = GAMMA / (GAMMA + (1 - GAMMA) * np.exp(-EPS))
    outer = switch(STREAM.binomial(1, inner_part, count))
    inside, outside = step + GAMMA * uniform, step + GAMMA + (1 - GAMMA) * uniform
    sign = 2 * STREAM.binomial(1, 0.5, count) - 1
    return SENSITIVITY * sign * ((1 - outer) * inside + outer * outside)


def randomise(labels):
    """Returns labels 0 and 1 with the noise of the code."""
    return labels + noise(len(labels), lambda b: -2 * b + 1)


def corrected(labels):
    """Returns labels 0 and 1 with the noise of the formula."""
    return labels + noise(len(labels), lambda b: 1 - b)
