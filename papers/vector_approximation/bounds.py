"""Upper bounds of Zhao et al. (2025), vector_approximation, in numbers. Imports no torch.

Theorem 2 with (36) for k nearest neighbours on RAPPOR's bits, appendix B.1 for a released label,
(30) for ALIBI's soft label; each as printed and as it should be (docs/theory-bounds.md).
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import ncx2

DRAWS = 20_000


def retention_bound(eps: float, num_classes: int) -> tuple[float, float]:
    """Returns the largest mean probability of releasing the own label: as printed, and tight.

    Appendix B.1 bounds e^eps / K; summing P(j | i) >= e^-eps P(i | i) over j != i alone gives
    e^eps / (e^eps + K - 1), which randomised response attains. The mean is over labels that are
    equally likely.

    >>> retention_bound(math.log(3), 3)
    (1.0, 0.6)
    """
    gain = math.exp(eps)
    return round(gain / num_classes, 15), round(gain / (gain + num_classes - 1), 15)


@dataclass(frozen=True)
class RingProblem:
    """RAPPOR's bits and k nearest neighbours on K Gaussians around the circle.

    Attributes:
        eps: > 0.
        num_classes: K >= 2.
        sigma: standard deviation per coordinate.
        num_examples: N.
        k: number of neighbours.
        delta: probability with which Hoeffding's bound may fail at a point.
    """

    eps: float
    num_classes: int
    sigma: float
    num_examples: int
    k: int
    delta: float

    def excess_risk(self, *, with_bias: bool) -> float:
        """Returns the bound of Theorem 2 with (36) on the excess risk, by draws of test points.

        (36) may fail; the probability of that is added, as the mean in (20) needs it. Without the
        bias term the value is smaller, and bounds nothing.
        """
        reach = 2 * self.distance(with_bias=with_bias)
        inside = float((margins(self.num_classes, self.sigma) <= reach).mean())
        fails = self.delta + math.exp(-(1 - math.log(2)) * self.k)
        return reach * inside + fails

    def distance(self, *, with_bias: bool) -> float:
        """Returns Delta_eps of (21) by (36), at the point of the circle where it is least."""
        half = self.eps / 2
        noise = math.sqrt(math.log(2 * self.num_classes / self.delta) / (2 * self.k))
        return noise / math.tanh(half / 2) + with_bias * self.steepness * self.radius

    @property
    def steepness(self) -> float:
        """L: the largest slope of a class probability, halfway between two neighbours far out."""
        return 2 * math.sin(math.pi / self.num_classes) / (4 * self.sigma**2)

    @property
    def radius(self) -> float:
        """r_0 of (32), a ball with 2 k / N of the mass, where it is least on the circle."""
        means = 2 * math.pi * np.arange(self.num_classes) / self.num_classes
        centres = np.linspace(0, math.pi / self.num_classes, 9)  # from a mean to halfway
        apart = (2 * np.sin((means - centres[:, None]) / 2) / self.sigma) ** 2

        def missing(r: float) -> float:
            mass = np.asarray(ncx2.cdf((r / self.sigma) ** 2, 2, apart))
            return float(mass.mean(1).max()) - 2 * self.k / self.num_examples

        return float(brentq(missing, 1e-9, 10))


@cache
def margins(num_classes: int, sigma: float) -> np.ndarray:
    """Returns eta* - eta_s, float64 (DRAWS,), at points drawn from K Gaussians on the circle."""
    rng = np.random.default_rng(0)
    angles = 2 * math.pi * np.arange(num_classes) / num_classes
    means = np.stack([np.cos(angles), np.sin(angles)], 1)
    labels = rng.integers(num_classes, size=DRAWS)
    points = means[labels] + sigma * rng.standard_normal((DRAWS, 2))
    logits = points @ means.T / sigma**2
    law = np.exp(logits - logits.max(1, keepdims=True))
    top = np.partition(law / law.sum(1, keepdims=True), -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


@dataclass(frozen=True)
class SoftLabel:
    """What ALIBI's soft label gives to the true class, means over draws.

    Attributes:
        mass: its probability.
        printed: (30), 1 / (number of wrong classes at or above the true one), at most 1.
        corrected: 1 / (1 + that number).
        empty: share of draws in which (30) divides by 0.
    """

    mass: float
    printed: float
    corrected: float
    empty: float


@cache
def soft_label(eps: float, num_classes: int) -> SoftLabel:
    """Returns the soft label of (29) under a uniform prior, by draws."""
    rng = np.random.default_rng(0)
    scale = 2 / eps
    released = rng.laplace(0, scale, (DRAWS, num_classes))
    released[:, 0] += 1  # the true class
    logits = (np.abs(released) - np.abs(released - 1)) / scale
    soft = np.exp(logits)
    above = (released[:, 1:] >= released[:, :1]).sum(1)
    return SoftLabel(
        mass=float((soft[:, 0] / soft.sum(1)).mean()),
        printed=float((1 / np.maximum(above, 1)).mean()),
        corrected=float((1 / (1 + above)).mean()),
        empty=float((above == 0).mean()),
    )
