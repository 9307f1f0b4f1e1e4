"""Whether draws follow the claimed distribution."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.stats import binom, chisquare, dlaplace, norm
from torch import Generator, Tensor

from labeldp.support import seeding

Ask = Callable[[Tensor, Generator], Tensor]
"""Numbers of inputs, int64 (n,), to an output of each, first axis n."""
Law = Callable[[Tensor], Tensor]
"""Outputs to their log probability, or log density, under each input, float64 (n, I)."""


def laplace_law(outputs: Tensor, means: Tensor, scale: float) -> Tensor:
    """Returns -|z - m|_1 / scale, float64 (n, I), of outputs (n, D) and means (I, D).

    The law of Laplace noise up to a constant, and of geometric noise on integers.
    """
    return -torch.cdist(outputs.double(), means, p=1) / scale


BINS = 8
LEVEL = 1e-3
"""A fit below this p-value says that sampler and formula disagree."""
DETECTED = norm.isf(LEVEL / 4) + norm.isf(0.1)
"""Standard errors that a deviation must have to be found in 90 of 100 audits."""


@dataclass(frozen=True)
class GoodnessOfFit:
    """How well draws agree with the claimed law.

    Attributes:
        p_value: of the draws if the law holds; 0 where an impossible output was drawn.
        found_from: the smallest relative change of eps in the sampler (0.03: 3 % less noise) that
            these draws would have shown in 90 of 100 audits.
    """

    p_value: float
    found_from: float

    @property
    def agrees(self) -> bool:
        """Whether sampler and formula agree, at `LEVEL`."""
        return self.p_value >= LEVEL


def all_of(fits: list[GoodnessOfFit]) -> GoodnessOfFit | None:
    """Returns several comparisons as one: the least p-value times their number; None for none."""
    if not fits:
        return None
    p_value = min(1.0, len(fits) * min(fit.p_value for fit in fits))
    return GoodnessOfFit(p_value, min(fit.found_from for fit in fits))


def certain(fit: GoodnessOfFit) -> GoodnessOfFit | None:
    """Returns a misfit that is beyond chance, or None."""
    return None if fit.agrees else fit


def own_stream(generator: Generator, name: str) -> Generator:
    """Returns a stream that follows from the audit's seed, and moves no draw of the audit."""
    return seeding.generator(generator.initial_seed(), "audit", name)


MOST = 80_000
"""Draws of a look at the noise."""
FEW = 5
"""Draws that a cell of a chi-square test must expect."""


def misfit(
    ask: Ask, law: Law, inputs: int, draws: int, generator: Generator
) -> GoodnessOfFit | None:
    """Returns how far draws of so many inputs are from their law; None if by chance."""
    found = Calibration()
    for number in range(inputs):
        numbers = torch.full((max(1, min(draws, MOST) // inputs),), number)
        found.add(law(ask(numbers, generator)), number)
    return certain(found.fit())


def laplace_fit(noise: Tensor, scale: float) -> GoodnessOfFit:
    """Returns how whole numbers (n,) agree with discrete Laplace noise: their mean size and all."""
    sizes, rate = noise.abs().numpy(), 1 / scale
    mean = 1 / math.sinh(rate)  # of the size of a discrete Laplace variable
    error = math.sqrt((dlaplace.var(rate) - mean**2) / len(sizes))
    values = [2 * norm.sf(abs(sizes.mean() - mean) / error), laplace_shape(sizes, rate)]
    # How much the mean moves with the scale: its derivative, times the scale.
    slope = rate * math.cosh(rate) / math.sinh(rate) ** 2
    return GoodnessOfFit(min(1.0, 2 * float(min(values))), DETECTED * error / slope)


def laplace_shape(sizes: np.ndarray, rate: float) -> float:
    """Returns the p-value of the sizes of discrete Laplace variables, by a chi-square test."""
    count = len(sizes)
    last = max(1, int(dlaplace.ppf(1 - 20 / count, rate)))  # beyond it few are expected
    # Cells in which less than a few are expected have no chi-square law: wide noise needs wide ones
    rarest = 2 * count * dlaplace.pmf(last - 1, rate)
    starts = np.append(np.arange(0, last, max(1, math.ceil(FEW / rarest))), last)
    beyond = np.append(1.0, 2 * dlaplace.sf(starts[1:] - 1, rate))
    chances = beyond - np.append(beyond[1:], 0.0)
    seen = np.bincount(starts.searchsorted(sizes, "right") - 1, minlength=len(starts))
    if chances[-1] * count < FEW:  # nearly all are 0
        tails = binom(count, chances[-1])
        return float(min(1.0, 2 * min(tails.sf(seen[-1] - 1), tails.cdf(seen[-1]))))
    return float(chisquare(seen, chances / chances.sum() * count).pvalue)


@dataclass
class Calibration:
    """Compares the claimed likelihood ratios with how often outputs came from which input.

    Equally many outputs are drawn from every input. If the law holds, an output o came from input
    i with probability softmax(law(o))_i. Two tests follow: a score test of the law's temperature,
    which is what less noise changes, and in bins of that probability its share of outputs that came
    from i. Terms that all inputs share cancel, so that densities, probabilities and rounded reals
    are tested alike.
    """

    score: float = 0.0
    variance: float = 0.0
    reach: float = 0.0
    impossible: bool = False
    parts: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def add(self, law: Tensor, number: int) -> None:
        """Takes in outputs that were drawn from input `number`, by their law, float64 (n, I)."""
        if law.isnan().any() or (law[:, number] == -math.inf).any():
            self.impossible = True
            return
        belief = law.softmax(1)
        finite = law.clamp_min(-1e300)  # where the belief is 0
        least = law.masked_fill(law == -math.inf, math.inf).amin(1)
        self.reach = max(self.reach, float((law.amax(1) - least).max()))
        mean = (belief * finite).sum(1, keepdim=True)
        self.score += float((finite[:, number] - mean[:, 0]).sum())
        self.variance += float((belief * (finite - mean) ** 2).sum())
        hit = torch.zeros_like(belief)
        hit[:, number] = 1
        self.parts.append((belief.float(), hit.bool()))

    def fit(self) -> GoodnessOfFit:
        """Returns what was found."""
        if self.impossible:
            return GoodnessOfFit(0.0, 0.0)
        if self.variance < 1e-12 and not self.parts:
            return GoodnessOfFit(1.0, math.inf)
        deviations = self._deviations()
        spread = math.sqrt(self.variance)
        # Outputs of which the law is sure have no variance; their score is 0 unless it is wrong.
        values = [self._score_value(spread)]
        if deviations:
            values.append(len(deviations) * 2 * norm.sf(max(deviations)))
        found = DETECTED / spread if spread > 1e-9 else math.inf
        return GoodnessOfFit(min(1.0, 2 * float(min(values))), float(found))

    def _score_value(self, spread: float) -> float:
        """Returns the p-value of the score, two-sided."""
        size = abs(self.score)
        if spread < 1e-9:
            return 1.0 if size < 1e-6 else 0.0
        if self.variance > 25 * self.reach**2:
            return float(2 * norm.sf(size / spread))
        # At a large eps the score is a sum of few rare surprises: Bernstein's inequality.
        return 2 * math.exp(-(size**2) / 2 / (self.variance + self.reach * size / 3))

    def _deviations(self) -> list[float]:
        """Returns the size of the standardised deviation of each input's share in each bin."""
        belief = torch.cat([part[0] for part in self.parts]).double()
        hit = torch.cat([part[1] for part in self.parts]).double()
        found = []
        for number in range(belief.shape[1]):
            p = belief[:, number].contiguous()
            # Rounded: equal likelihoods differ in their last bits, and must share a bin.
            keys = (p * 1e6).round()
            some = keys[:: max(1, len(keys) // 50_000)]
            edges = some.quantile(torch.linspace(0, 1, BINS + 1).double()[1:-1]).unique()
            which = torch.bucketize(keys, edges)
            size = len(edges) + 1
            variance = torch.zeros(size).double().index_add_(0, which, p * (1 - p))
            excess = torch.zeros(size).double().index_add_(0, which, hit[:, number] - p)
            enough = variance > 10
            found += (excess[enough] / variance[enough].sqrt()).abs().tolist()
            # Where the law is all but sure, more than a few surprises contradict it.
            sure = (~enough) & (excess.abs() > 10 + 10 * variance.sqrt())
            found += [math.inf] * int(sure.sum())
        return found
