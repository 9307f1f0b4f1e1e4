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

    @property
    def dimensions(self) -> int:
        """d; twice as many where features are noisy too."""
        return 2 * self.dimension if self.trust == "local_full" else self.dimension

    def side_power(self, moment: float | None) -> float:
        """Returns the power by which the rule's side falls with the number of examples.

        Args:
            moment: p; None for bounded labels, the limit of all moments: (p - 1) / p -> 1.
        """
        # Noise on a sum of labels (central), or on every label.
        noise = 1 if self.trust == "central" else 2
        if moment is None:
            return 1 / (noise * self.beta + self.dimensions)
        return (moment - 1) / (noise * moment * self.beta + self.dimensions * (moment - 1))


def side(problem: Problem) -> float:
    """Returns the rule's side h of a cube; a ball of k neighbours has k = N h^d.

    Theorems 2, 4, 6, 8, 10 and 12; `local_full` by the same balance of bias and noise.
    """
    examples = problem.num_examples
    free = (problem.logarithm / examples) ** (1 / (2 * problem.beta + problem.dimension))
    if problem.trust == "none":
        return free
    power = problem.side_power(problem.moment)
    if problem.trust == "central":
        return free + (problem.logarithm / (problem.eps * examples)) ** power
    private = (examples * problem.privacy_factor / problem.logarithm) ** -power
    return private if problem.moment is None else max(free, private)


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
    is_regression = problem.task == "regression"
    risk_power = problem.beta * (2 if is_regression else problem.gamma + 1)
    if problem.trust == "none":
        return -risk_power / (2 * problem.beta + problem.dimension), 0.0
    power = problem.side_power(problem.moment if is_regression else None)
    return -risk_power * power, -risk_power * power * (1 if problem.trust == "central" else 2)


def along(problem: Problem, shrink: float) -> float:
    """Returns the power of N along eps = c N^-shrink, of the term that privacy adds."""
    in_n, in_eps = exponents(problem)
    return in_n - shrink * in_eps


def without_privacy(problem: Problem) -> Problem:
    """Returns the same problem with nothing to protect."""
    return replace(problem, trust="none")
