"""Looks at a sampler where a channel's few inputs do not lead, on a stream of their own.

An audit's bound and fit come from small data. A mechanism may be right there and wrong elsewhere:
for large counts, for groups of different sizes. What a look draws moves no number of the audit; it
speaks only where chance is out of the question.
"""

import math

import numpy as np
from scipy.stats import binom, chisquare, dlaplace
from torch import Generator, Tensor

from labeldp.audit.channel import Draw, Law
from labeldp.audit.fit import Calibration, Fit
from labeldp.audit.rows import LEVEL
from labeldp.support import seeding

MOST = 80_000
"""Draws of a look."""
FEW = 5
"""Draws that a cell of a chi-square test must expect."""


def own_stream(generator: Generator, name: str) -> Generator:
    """Returns a stream that follows from the audit's seed, and moves no draw of the audit."""
    return seeding.generator(generator.initial_seed(), "audit", name)


def misfit(draw: Draw, law: Law, inputs: int, draws: int, generator: Generator) -> Fit | None:
    """Returns how far draws of some inputs are from their law; None if by no more than chance.

    Args:
        draw: as of a `Channel`.
        law: as of a `Channel`.
        inputs: how many there are.
        draws: in all.
        generator: see `own_stream`.
    """
    found = Calibration()
    for number in range(inputs):
        found.add(law(draw(number, max(1, min(draws, MOST) // inputs), generator)), number)
    return certain(found.fit())


def certain(fit: Fit) -> Fit | None:
    """Returns a misfit that is beyond chance, or None."""
    return fit if fit.p_value < LEVEL else None


def noise_misfit(noise: Tensor, scale: float) -> Fit | None:
    """Returns how far whole numbers are from discrete Laplace noise, each column by itself.

    None if by no more than chance.

    Args:
        noise: outputs less the true answers, float64 (n, D).
        scale: as stated.
    """
    values = [laplace_shape(column.abs().numpy(), 1 / scale) for column in noise.T]
    return certain(Fit(min(1.0, len(values) * min(values)), 0.0))


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
