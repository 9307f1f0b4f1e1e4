"""Accounting of many noisy sums over secret random batches, when one label is replaced."""

import math
from functools import cache

import numpy as np
from scipy.optimize import brentq

from labeldp.mechanisms.gaussian import SENSITIVITY, gaussian_stddev

PLACES = 2000
"""Steps of the grid of privacy losses within eps; more change the noise by less than 0.01 %."""
PRECISION = 1e-4
"""Relative width at which the search for the noise ends, on its safe side."""


@cache
def poisson_delta(eps: float, stddev: float, steps: int, share: float) -> float:
    """Returns the delta at eps of `steps` noisy sums over secret batches, under label replacement.

    Each step puts every example into its batch with probability `share`, on its own, and adds
    Gaussian noise to the sums of the rows of each class over the batch; rows have length at most 1.
    Nobody learns who was in a batch. A replaced label takes its row from the sum of one class and
    adds it to that of another. The two are different entries with independent noise, and given
    either label one of them has no share of the example. So the privacy loss of a step is exactly
    that of one removed and one added example, each of sensitivity 1, independently: the loss of the
    whole run is the sum of `steps` of each. Losses are rounded so that delta is never too small.

    Source: subsampled Gaussian losses: Koskela, Jälkö, Honkela (2020), arXiv:1906.03049; rounding:
    Doroshenko et al. (2022), arXiv:2207.04380, both as in dp-accounting. Replacement as the sum of
    two losses: ours.

    Args:
        eps: > 0, finite.
        stddev: of the noise on each entry, > 0.
        steps: T >= 1.
        share: in (0, 1].
    """
    # Takes longer to load than most commands take in all.
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    gap = eps / PLACES

    def losses(kind: AdjacencyType) -> pld_pmf.PLDPmf:
        one = GaussianPrivacyLoss(stddev, sensitivity=1, sampling_prob=share, adjacency_type=kind)
        ends = one.connect_dots_bounds()
        low, high = math.floor(ends.epsilon_lower / gap), math.ceil(ends.epsilon_upper / gap)
        deltas = one.get_delta_for_epsilon(np.arange(low, high + 1) * gap)
        each = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(gap, low, high, deltas)
        return each.self_compose(steps)

    together = losses(AdjacencyType.REMOVE).compose(losses(AdjacencyType.ADD))
    return float(together.get_delta_for_epsilon(eps))


@cache
def poisson_stddev(eps: float, delta: float, steps: int, share: float) -> float:
    """Returns the noise on each entry that makes all steps together (eps, delta)-label-DP.

    Within 0.01 % of the least; 0 at eps=inf. See `poisson_delta`.

    >>> round(poisson_stddev(1.0, 1e-5, 100, 1.0) / 10, 2)  # of 100 equal answers: one tenth each
    5.28
    """
    if math.isinf(eps):
        return 0.0
    # Enough even if everybody knew the batches.
    high = SENSITIVITY * math.sqrt(steps) * gaussian_stddev(eps, delta) * (1 + PRECISION)
    low = 0.8 * high  # not far below: little noise has huge losses, and a grid as large
    while poisson_delta(eps, low, steps, share) <= delta:
        high, low = low, 0.8 * low

    def excess(log_stddev: float) -> float:
        found = poisson_delta(eps, math.exp(log_stddev), steps, share)
        return math.log(max(found, 1e-300) / delta)

    found = brentq(excess, math.log(low), math.log(high), xtol=PRECISION / 4)
    return math.exp(found + PRECISION / 2)
