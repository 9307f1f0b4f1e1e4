"""Mechanisms as channels that an audit draws from: the local ones, and their edge cases."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom, chisquare, dlaplace, norm
from torch import Generator, Tensor

from labeldp.audit.fit import DETECTED, Calibration, GoodnessOfFit, all_of, laplace_law
from labeldp.audit.statistics import LEVEL
from labeldp.mechanisms import LocalFull
from labeldp.support import seeding

Draw = Callable[[int, int, Generator], Tensor]
Law = Callable[[Tensor], Tensor]
Mixed = Callable[[Tensor, Generator], Tensor]


def of_one(mixed: Mixed) -> Draw:
    """Returns how outputs of one input are drawn, by what draws an output of each of many."""
    return lambda number, size, generator: mixed(torch.full((size,), number), generator)


@dataclass(frozen=True)
class Channel:
    """What an audit by draws needs to know of a sampler.

    Attributes:
        name: which sampler it is, such as `release` or `release_groups`.
        inputs: a few words for each input, I >= 2 of them. Any two differ in what the mechanism
            protects: one label, or one whole example.
        draw: (number of the input, n, generator) -> n independent outputs, first axis n.
        law: outputs -> their claimed log probability, or log density, under each input, float64
            (n, I), up to a term that all inputs share; None where it is not known.
        most: draws in all that can be afforded.
        chunk: outputs that are held in memory at once.
        noise: (draws, generator) -> a further comparison with the stated noise, or None.
        delta: of the claim.
        mixed: (numbers of inputs, int64 (n,), generator) -> an output of each, all of one call;
            None where the sampler has no rows.
    """

    name: str
    inputs: tuple[str, ...]
    draw: Draw
    law: Law | None
    most: int = 4_000_000
    chunk: int = 50_000
    noise: Callable[[int, Generator], GoodnessOfFit | None] | None = None
    delta: float = 0.0
    mixed: Mixed | None = None

    def batches(self, size: int) -> list[int]:
        """Returns the sizes of the batches that `size` draws of one input are made in."""
        whole, rest = divmod(size, self.chunk)
        return [self.chunk] * whole + ([rest] if rest else [])


MOST = 80_000
"""Draws of a look."""
FEW = 5
"""Draws that a cell of a chi-square test must expect."""


def own_stream(generator: Generator, name: str) -> Generator:
    """Returns a stream that follows from the audit's seed, and moves no draw of the audit."""
    return seeding.generator(generator.initial_seed(), "audit", name)


def misfit(
    draw: Draw, law: Law, inputs: int, draws: int, generator: Generator
) -> GoodnessOfFit | None:
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


def certain(fit: GoodnessOfFit) -> GoodnessOfFit | None:
    """Returns a misfit that is beyond chance, or None."""
    return fit if fit.p_value < LEVEL else None


def noise_misfit(noise: Tensor, scale: float) -> GoodnessOfFit | None:
    """Returns how far whole numbers are from discrete Laplace noise, each column by itself.

    None if by no more than chance.

    Args:
        noise: outputs less the true answers, float64 (n, D).
        scale: as stated.
    """
    values = [laplace_shape(column.abs().numpy(), 1 / scale) for column in noise.T]
    return certain(GoodnessOfFit(min(1.0, len(values) * min(values)), 0.0))


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


BEYOND = 10.0
"""Real labels this many times beyond the bound must be treated as the bound."""
CALLS = 20_000
"""Draws in all where every draw is a call."""
SIMULATED = 200_000
FEW_CALLS = 500
"""Of which a group without labels is looked at."""


def local_channels(mechanism: LocalFull) -> list[Channel]:
    """Returns the channels for classes and for real labels."""
    return [_local_classes(mechanism), _local_values(mechanism)]


def _local_classes(mechanism: LocalFull) -> Channel:
    """One example, two groups, two classes."""
    own = [(0, 0), (0, 1), (1, 0)]
    means = torch.zeros((3, 4), dtype=torch.float64)
    for number, (group, label) in enumerate(own):
        means[number, 2 * group + label] = 1

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        group, label = (torch.tensor([part]) for part in own[number])
        calls = [mechanism.release_groups(label, 2, group, 2, generator) for _ in range(size)]
        return torch.stack(calls).reshape(size, 4)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit:
        one, groups = torch.tensor([0]), draws // 2
        rows = mechanism.release_groups(one, 2, one, groups, generator)[1:]
        sizes, rate = rows.flatten().abs().numpy(), 1 / mechanism.class_scale
        mean = 1 / math.sinh(rate)  # of the size of a discrete Laplace variable
        error = math.sqrt((dlaplace.var(rate) - mean**2) / len(sizes))
        z = (sizes.mean() - mean) / error
        values = [2 * norm.sf(abs(z)), laplace_shape(sizes, rate)]
        # How much the mean moves with the scale: its derivative, times the scale.
        slope = rate * math.cosh(rate) / math.sinh(rate) ** 2
        return GoodnessOfFit(min(1.0, 2 * float(min(values))), DETECTED * error / slope)

    inputs = tuple(f"class {label} in group {group}" for group, label in own)
    return Channel("release_groups, classes", inputs, draw,
                   lambda outputs: laplace_law(outputs, means, mechanism.class_scale),
                   most=CALLS, noise=noise)  # fmt: skip


def _local_values(mechanism: LocalFull, bound: float = 1.0) -> Channel:
    """One example in the only group; its mean is a ratio of two noisy sums.

    The law of the ratio has no closed form: the noise is compared with a simulation of our own, at
    as many labels as make the mean about a third of the clip in size.
    """
    reach = mechanism.reach(bound)
    own = [reach * place for place in (-BEYOND, -1.0, 1.0, BEYOND)]

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        value, alone = torch.tensor([own[number]]).double(), torch.tensor([0])
        calls = [mechanism.release_groups(value, bound, alone, 1, generator) for _ in range(size)]
        return torch.cat(calls)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        parts = (0.0, BEYOND)  # noise alone, and whether a label beyond the clip is clipped
        calls = max(2, min(draws, CALLS) // 2)
        empty = _empty(mechanism, reach, min(calls, FEW_CALLS), generator)
        found = [_compared(mechanism, part, reach, calls, generator) for part in parts]
        return empty or all_of(found)

    inputs = tuple(f"label {value:g}" for value in own)
    return Channel("release_groups, real labels", inputs, draw, None, most=CALLS, noise=noise)


def _empty(
    mechanism: LocalFull, reach: float, calls: int, generator: Generator
) -> GoodnessOfFit | None:
    """Returns the misfit of a group without labels, beside one with all; None if there is none.

    It has as much noise as the other one, or it tells that nobody is in it.
    """
    stream, count = own_stream(generator, "empty"), _labels(mechanism)
    labels, first = torch.full((count,), reach).double(), torch.zeros(count, dtype=torch.int64)
    drawn = [mechanism.release_groups(labels, reach, first, 2, stream)[1] for _ in range(calls)]
    found = torch.stack(drawn).abs().numpy() / reach
    stated = _simulated(mechanism, count, 0.0, 1.0, inside=0, groups=2)
    return certain(_fit(found, stated, 1.0))


def _labels(mechanism: LocalFull) -> int:
    """Returns how many labels make noise and labels weigh alike in a mean."""
    return max(4, min(20_000, math.ceil(300 / mechanism.eps**2)))


def _fit(found: np.ndarray, stated: np.ndarray, slope: float) -> GoodnessOfFit:
    """Compares the mean of what was drawn with that of a simulation.

    Args:
        found: what was drawn, (n,).
        stated: what the simulation gave, (m,).
        slope: by how much the mean moves with the scale, relative to the scale.
    """
    error = math.sqrt(found.var() / len(found) + stated.var() / len(stated))
    z = (found.mean() - stated.mean()) / max(error, 1e-12)
    return GoodnessOfFit(float(2 * norm.sf(abs(z))), float(DETECTED * error / max(slope, 1e-12)))


def _compared(
    mechanism: LocalFull, place: float, reach: float, calls: int, generator: Generator
) -> GoodnessOfFit:
    """Compares means of equal labels, `place` times the clip, with a simulation of our own."""
    count = _labels(mechanism)
    labels = torch.full((count,), place * reach, dtype=torch.float64)
    alone = torch.zeros(count, dtype=torch.int64)
    drawn = [mechanism.release_groups(labels, reach, alone, 1, generator) for _ in range(calls)]
    found = torch.cat(drawn).abs().numpy() / reach
    stated, less = (_simulated(mechanism, count, min(place, 1.0), f, count) for f in (1.0, 0.97))
    return _fit(found, stated, abs(stated.mean() - less.mean()) / 0.03)


def _simulated(
    mechanism: LocalFull, count: int, place: float, factor: float, inside: int, groups: int = 1
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns sizes of means of `inside` labels, over the clip, at `factor` times the noise.

    All `count` labels add noise to it, as to each of the `groups`.
    """
    stream = np.random.default_rng(0)  # the same for all factors
    gammas = stream.standard_gamma(count, (2, SIMULATED))  # the grid of labels is too fine to see
    sums = inside * place + factor * mechanism.value_scale(1.0) * (gammas[0] - gammas[1])
    chance = -math.expm1(-1 / (factor * mechanism.size_scale))
    wholes = stream.negative_binomial(count, chance, (2, SIMULATED))
    sizes = inside + (wholes[0] - wholes[1])
    return np.minimum(np.abs(sums / np.maximum(sizes, count / groups / 2)), 1.0)
