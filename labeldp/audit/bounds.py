"""Lower bounds on eps from counts, at a stated confidence, and the power that goes with them."""

import math

from scipy.optimize import brentq
from scipy.stats import beta, binom

from labeldp.support.validate import check_number

MOST_EPS = 60.0
"""Where a search for eps ends; e^60 is beyond any number of draws."""
POWER = 0.9
"""Of audits: the share that find a leak which counts as found."""


def share_low(hits: int, draws: int, level: float) -> float:
    """Returns the Clopper-Pearson lower bound of a probability, wrong with at most `level`."""
    return float(beta.ppf(level, hits, draws - hits + 1)) if hits > 0 else 0.0


def share_high(hits: int, draws: int, level: float) -> float:
    """Returns the Clopper-Pearson upper bound of a probability, wrong with at most `level`."""
    return float(beta.ppf(1 - level, hits + 1, draws - hits)) if hits < draws else 1.0


def eps_bound(more: int, less: int, draws: int, confidence: float, delta: float = 0.0) -> float:
    """Returns a lower bound on eps from how often one event happened under two inputs.

    (eps, delta)-DP says P(event | a) <= e^eps P(event | b) + delta. Both Clopper-Pearson bounds
    hold together with at least `confidence` (Bonferroni: half of the error each).

    Args:
        more: hits among `draws` under the input that makes the event likelier.
        less: hits among `draws` under the other input.
        draws: for each of the two inputs, >= 1.
        confidence: in (0, 1).
        delta: of the claim, in [0, 1).

    >>> round(eps_bound(7311, 2689, 10_000, 0.99), 2)  # randomised response, K=2, eps=1
    0.94
    """
    level = (1 - check_number("confidence", confidence, above=0.0, high=1 - 1e-12)) / 2
    low = share_low(more, draws, level) - delta
    return max(0.0, math.log(low / share_high(less, draws, level))) if low > 0 else 0.0


def flagged_from(
    eps: float, share: float, draws: int, confidence: float, delta: float = 0.0
) -> float:
    """Returns the smallest true eps that `eps_bound` would put above `eps` in 90 of 100 audits.

    For an event that keeps its probability `share` under the one input and gets rarer under the
    other. Infinity where no leak would be found: the event is too rare for so few draws.

    Args:
        eps: what is claimed.
        share: probability of the event under the input that makes it likelier.
        draws: for each of the two inputs.
        confidence: of the bound.
        delta: of the claim.
    """
    miss = (1 - POWER) / 2

    def is_found(true_eps: float) -> bool:
        more = int(binom.ppf(miss, draws, share))
        less = int(binom.ppf(1 - miss, draws, max(0.0, share - delta) * math.exp(-true_eps)))
        return eps_bound(more, less, draws, confidence, delta) > eps

    low, high = eps, eps + MOST_EPS
    if not is_found(high):
        return math.inf
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def one_run_bound(right: int, guesses: int, confidence: float) -> float:
    """Returns a lower bound on eps from right guesses between two equally likely labels.

    If the label of every canary was drawn from two candidates by a fair coin, and all canaries went
    through one run that is eps-label-DP, the number of right guesses is stochastically smaller
    than a binomial one with probability e^eps / (1 + e^eps), whatever the guesses depend on. The
    canaries need not be independent after the run. Guesses may abstain.

    Source: Steinke, Nasr, Jagielski (2023), "Privacy auditing with one (1) training run",
    arXiv:2305.08846, theorem 2.1 with delta = 0.

    >>> round(one_run_bound(731, 1000, 0.95), 2)
    0.88
    """
    check_number("confidence", confidence, above=0.0, high=1 - 1e-12)

    def excess(eps: float) -> float:
        return float(binom.sf(right - 1, guesses, 1 / (1 + math.exp(-eps)))) - (1 - confidence)

    if guesses == 0 or excess(0.0) >= 0:
        return 0.0
    return float(brentq(excess, 0.0, MOST_EPS))
