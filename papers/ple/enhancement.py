"""Conditions of the theorems of ple, in numbers. Imports no torch."""

import math


def is_consistent(unreliability: float, ambiguity: float) -> bool:
    """Returns whether Theorem 1 of ple applies: gamma < 1 - Delta / (1 - Delta).

    >>> is_consistent(0.2, 0.3), is_consistent(0.2, 0.8)
    (True, False)
    """
    return unreliability < 1 and ambiguity < 1 - unreliability / (1 - unreliability)


def sample_size(
    unreliability: float, ambiguity: float, error: float, confidence: float, dimension: float,
    num_classes: int, *, corrected: bool,
) -> float:  # fmt: skip
    """Returns n_0 of Theorem 2 of ple; infinity where it does not apply, or is void.

    It is void where its denominator is not positive. The printed proof sums over 2^n swaps and
    forgets to divide by their number, which its own Lemma 2 does: (2 - 2 Delta)^n stands for
    (1 - Delta)^n.

    >>> sizes = [sample_size(0.2, 0.3, 1.0, 0.1, 9, 10, corrected=each) for each in (False, True)]
    >>> [round(size) for size in sizes if size < math.inf]
    [384]

    Args:
        unreliability: Delta > 0.
        ambiguity: gamma > 0, below 1 - Delta.
        error: epsilon, the error that is allowed.
        confidence: delta, the probability of failure.
        dimension: Natarajan dimension of the hypotheses.
        num_classes: L.
        corrected: divide by the number of swaps.
    """
    if min(unreliability, ambiguity) <= 0 or unreliability + ambiguity >= 1:
        return math.inf
    theta = math.log(2 * (1 - unreliability) / (1 - unreliability + ambiguity))
    swaps = 1.0 if corrected else 2.0
    rate = theta * error / 2 - math.log(swaps * (1 - unreliability))
    if rate <= 0:
        return math.inf
    size = math.log(2 * dimension) - math.log(rate) + 2 * math.log(num_classes)
    return 2 / rate * (dimension * size - math.log(confidence) + 1)
