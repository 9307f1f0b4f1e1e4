"""Rates of Zhao et al. (2025), theoretical_limits: exponents of table I and the tuning behind them.

The paper's text lost its formulas; docs/theory.md has each one rebuilt with its reason. Constants
and logarithms are left to the caller. d: dimension, beta: Hölder exponent, gamma: margin exponent,
p: order of the finite moment (None for bounded labels), K: number of classes.
"""

import math
from dataclasses import dataclass, replace

TRUSTS = ("none", "local", "central", "local_full")
"""Who protects what: nobody; labels by each holder; labels (or all) by a curator; all by holders.

Full central privacy has the rates of central label privacy.
"""


@dataclass(frozen=True)
class Problem:
    """What decides a rate.

    Attributes:
        task: `classification` or `regression`.
        trust: one of `TRUSTS`.
        num_examples: N.
        eps: privacy budget; not used by `none`.
        dimension, beta, gamma, moment, num_classes: see above; gamma and K of classification.
    """

    task: str
    trust: str
    num_examples: float
    eps: float
    dimension: int
    beta: float
    gamma: float = 1.0
    moment: float | None = None
    num_classes: int = 2

    @property
    def logarithm(self) -> float:
        """The factor ln K of the theorems on classification; 1 for regression."""
        return math.log(self.num_classes) if self.task == "classification" else 1.0

    @property
    def privacy_factor(self) -> float:
        """eps^2, at most 1: what a locally private label is worth."""
        return min(self.eps, 1.0) ** 2


def side(problem: Problem) -> float:
    """Returns the rule's side h of a cube; a ball of k neighbours has k = N h^d.

    Theorems 2, 4, 6, 8, 10 and 12; `local_full` by the same balance of bias and noise.
    """
    n, d, beta, p = problem.num_examples, problem.dimension, problem.beta, problem.moment
    free = (problem.logarithm / n) ** (1 / (2 * beta + d))
    if problem.trust == "none":
        return free
    if problem.trust == "central":
        # Bounded labels are the limit of all moments: (p - 1) / p -> 1.
        power = 1 / (beta + d) if p is None else (p - 1) / (p * beta + d * (p - 1))
        return free + (problem.logarithm / (problem.eps * n)) ** power
    effective = n * problem.privacy_factor / problem.logarithm
    dimensions = 2 * d if problem.trust == "local_full" else d
    if p is None:
        return effective ** (-1 / (2 * beta + dimensions))
    return max(free, effective ** (-(p - 1) / (2 * p * beta + dimensions * (p - 1))))


def clip(problem: Problem, cube_side: float) -> float:
    """Returns the rule's T for labels with a finite p-th moment, given the side in use.

    Theorems 10 and 12: the bias of clipping T^(1-p) equals the standard error of the noise.
    """
    if problem.moment is None:
        raise ValueError("bounded labels are not clipped")
    inside = problem.num_examples * cube_side**problem.dimension
    p = problem.moment
    if problem.trust == "central":
        return float((problem.eps * inside) ** (1 / p))
    if problem.trust == "local_full":
        inside *= cube_side**problem.dimension
    return float((inside * problem.privacy_factor) ** (1 / (2 * p)))


def exponents(problem: Problem) -> tuple[float, float]:
    """Returns how the excess risk falls: (power of N, power of eps) of the term that privacy adds.

    For `none` the second is 0. The central rows of table I add the first term of `none` to this
    one. Local rows hold for eps <= 1.
    """
    d, beta, p = problem.dimension, problem.beta, problem.moment
    if problem.task == "classification":
        risk_power, p = beta * (problem.gamma + 1), None
    else:
        risk_power = 2 * beta
    if problem.trust == "none":
        return -risk_power / (2 * beta + d), 0.0
    if problem.trust == "central":
        power = 1 / (beta + d) if p is None else (p - 1) / (p * beta + d * (p - 1))
        return -risk_power * power, -risk_power * power
    dimensions = 2 * d if problem.trust == "local_full" else d
    if p is None:
        power = 1 / (2 * beta + dimensions)
    else:
        power = (p - 1) / (2 * p * beta + dimensions * (p - 1))
    return -risk_power * power, -2 * risk_power * power


def along(problem: Problem, shrink: float) -> float:
    """Returns the power of N along eps = c N^-shrink, of the term that privacy adds."""
    in_n, in_eps = exponents(problem)
    return in_n - shrink * in_eps


def without_privacy(problem: Problem) -> Problem:
    """Returns the same problem with nothing to protect."""
    return replace(problem, trust="none")
