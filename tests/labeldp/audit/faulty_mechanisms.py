"""Mechanisms and learners that are broken on purpose, to see which audit notices.

Each says what the honest one says, and draws something else. No run can reach them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from labeldp.mechanisms import (
    CubeMeans,
    LabelDPPro,
    Laplace,
    LaplaceHistogram,
    LocalFull,
    Measurement,
    NoisyClusters,
    NoisyMoments,
    PateFM,
    Rappor,
)
from labeldp.mechanisms.moments import SENSITIVITY, gaussian_noise
from labeldp.mechanisms.noise import Noise, group_sums

SAMPLERS = (
    "__call__",
    "release",
    "release_groups",
    "noisy_sums",
    "release_votes",
    "descended",
)


def drawn_by(honest: Measurement, sampler: Measurement) -> Measurement:
    """Returns a measurement that states what `honest` states and draws what `sampler` draws."""

    public = [each.name for each in fields(honest) if not each.compare]

    def drawn(name: str) -> Callable:
        return lambda self, *arguments, **named: getattr(self.sampler, name)(*arguments, **named)

    body = {name: drawn(name) for name in SAMPLERS if hasattr(honest, name)}
    body["sampler"] = cached_property(
        lambda self: replace(sampler, **{each: getattr(self, each) for each in public})
    )
    return type(type(honest).__name__, (type(honest),), body)(**vars(honest))


def less_noise(honest: Measurement) -> Measurement:
    """Draws at 1.03 times eps: 3 % less noise than stated."""
    return drawn_by(honest, replace(honest, eps=honest.eps / 0.97))


def no_noise(honest: Measurement) -> Measurement:
    """Draws nothing: the label or the group's exact answer is released."""
    return drawn_by(honest, replace(honest, eps=math.inf))


def half_sensitivity(honest: Measurement) -> Measurement:
    """Draws at 2 eps: as if a replaced label moved the answer by half of what it does."""
    return drawn_by(honest, replace(honest, eps=2 * honest.eps))


class UnclippedLaplace(Laplace):
    """Adds the noise of a clipped label to the label itself."""

    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Tensor | None = None
    ) -> Tensor:
        """Returns the label plus noise."""
        return values + super().release(torch.zeros_like(values), bound, generator, prior)


class UnclippedMeans(CubeMeans):
    """Adds the noise of clipped labels to the mean of the labels themselves."""

    def __call__(self, labels: Tensor, limit: float, noise: Noise) -> Tensor:
        """Returns means of unclipped labels plus noise."""
        drawn = super().__call__(torch.zeros_like(labels), limit, noise)
        sums = group_sums(labels, self.groups, self.num_groups)
        sizes = torch.bincount(self.groups, minlength=self.num_groups)
        return drawn + sums / self.divisors(sizes)


class UnclippedLocalFull(LocalFull):
    """Clips the mean that it returns, and not the labels that it sums."""

    def noisy_sums(self, values: Tensor, bound: float, noise: Noise) -> tuple[Tensor, Tensor]:
        """Returns noisy sums of unclipped labels, and sizes as they should be."""
        drawn, sizes = super().noisy_sums(torch.zeros_like(values), bound, noise)
        return drawn + group_sums(values, self.groups, self.num_groups), sizes


class NarrowClusters(NoisyClusters):
    """States and draws 3 % less noise than its eps asks for."""

    @property
    def scale(self) -> float:
        """Scale of the noise on each count."""
        return 0.97 * 2 / self.eps

    def __call__(self, labels: Tensor, limit: float, noise: Noise) -> Tensor:
        """Returns counts with less noise."""
        less = NoisyClusters(self.eps / 0.97).over(self.groups, self.num_groups)
        return less(labels, limit, noise)


class NarrowHistogram(LaplaceHistogram):
    """States and draws the noise of one count that moves, not two."""

    @property
    def scale(self) -> float:
        """Scale of the noise on each count."""
        return 1 / self.eps


class OneColumnMoments(NoisyMoments):
    """States and draws noise as if a replaced label moved its row in one column, not two."""

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each entry."""
        return super().stddev / SENSITIVITY


class UnclippedDescent(LabelDPPro):
    """Adds up gradients as long as they come."""

    def clipped_sum(self, gradients: Tensor) -> Tensor:
        """Returns the sum of all rows."""
        return gradients.double().sum(0)


class OneColumnDescent(LabelDPPro):
    """States and draws the noise of rows, which move apart, on gradients, which may be opposed."""

    @property
    def descent_stddev(self) -> float:
        """Standard deviation of the noise on each entry of a sum of gradients."""
        return self.stddev


class OneCountVotes(PateFM):
    """States and draws noise as if a replaced vote moved one count, not two."""

    @property
    def answer_stddev(self) -> float:
        """Standard deviation of the noise on each count of a winner."""
        return super().answer_stddev / SENSITIVITY


class ExactThreshold(PateFM):
    """Compares the largest count itself with the threshold; states noise on it."""

    def release_votes(self, counts: Tensor, /, generator: Noise) -> Tensor:
        """Returns winners where exact counts reach the threshold."""
        agrees = counts.amax(-1, keepdim=True) >= self.threshold * self.teachers
        return super().release_votes(torch.where(agrees, counts + 1e9, counts - 1e9), generator)


class NoiseOnEveryCount(PateFM):
    """Compares the largest noisy count with the threshold, as the code of the paper does."""

    def release_votes(self, counts: Tensor, /, generator: Noise) -> Tensor:
        """Returns winners where the largest noisy count reaches the threshold."""
        noisy = counts + gaussian_noise(tuple(counts.shape), self.selection_stddev, generator)
        agrees = noisy.amax(-1, keepdim=True) >= self.threshold * self.teachers
        return super().release_votes(torch.where(agrees, counts + 1e9, counts - 1e9), generator)


class CarelessRappor(Rappor):
    """Spends all of eps on the own bit, where two bits change: the true bit is kept too often."""

    @property
    def p_drop(self) -> float:
        """Probability that the own bit is dropped."""
        return math.exp(-self.eps) / (1 + math.exp(-self.eps))

    @property
    def p_flip(self) -> float:
        """Probability that another bit is set."""
        return super().p_drop / 2


@dataclass(frozen=True)
class Plant:
    """One fault in one mechanism."""

    fault: str
    name: str
    mechanism: Measurement


def plants(name: str, honest: Measurement) -> list[Plant]:
    """Returns the honest mechanism and those with each fault that it can have."""
    made = {
        "none": honest,
        "no noise": no_noise(honest),
        "3 % less noise": less_noise(honest),
        "wrong sensitivity": half_sensitivity(honest),
    }
    for kind, unclipped in (
        (Laplace, UnclippedLaplace),
        (CubeMeans, UnclippedMeans),
        (LocalFull, UnclippedLocalFull),
    ):
        if isinstance(honest, kind):
            # The fault comes first, so that it stands before the clip of the honest class.
            broken = type(unclipped.__name__, (unclipped, type(honest)), {})
            made["no clip"] = broken(**vars(honest))
    if isinstance(honest, NoisyClusters):
        made["3 % less noise, and says so"] = NarrowClusters(honest.eps)
    if isinstance(honest, LaplaceHistogram):
        made["wrong sensitivity, and says so"] = NarrowHistogram(honest.eps)
    if isinstance(honest, NoisyMoments):
        made["wrong sensitivity, and says so"] = OneColumnMoments(**vars(honest))
    if isinstance(honest, LabelDPPro):
        made["no clip"] = UnclippedDescent(**vars(honest))
        made["noise of rows on gradients, and says so"] = OneColumnDescent(**vars(honest))
    if isinstance(honest, PateFM):
        made["wrong sensitivity, and says so"] = OneCountVotes(**vars(honest))
        made["no noise on the threshold"] = ExactThreshold(**vars(honest))
        made["noise on every count"] = NoiseOnEveryCount(**vars(honest))
    if isinstance(honest, Rappor):
        made["wrong probability, and says so"] = CarelessRappor(honest.eps)
    return [Plant(fault, name, mechanism) for fault, mechanism in made.items()]
