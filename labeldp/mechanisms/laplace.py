"""Laplace noise: on one-hot vectors (ALIBI), on real labels, clipped or not."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms.base import (
    ClassMechanism,
    RealMechanism,
    check_shape,
    exact_match,
    explained_share,
    two_levels,
)
from labeldp.mechanisms.measurement import Measurement
from labeldp.mechanisms.noise import (
    LAPLACE_REACH,
    Noise,
    Prior,
    SecretGenerator,
    check_reach,
    discrete_laplace,
    group_sizes,
    group_sums,
    laplace_sums,
    numpy_stream,
    on_grid,
    one_word_laplace,
    one_word_reach,
    step_of,
)
from labeldp.support.validate import InputError, check_integer, check_labels, check_number


@dataclass(frozen=True)
class ClippingMechanism(Measurement):
    """A measurement that clips real labels to [-clip, clip] before it uses them.

    Args:
        eps: > 0.
        clip: > 0; None takes the bound of labels that have one, and for others leaves the choice
            to the learner, by a theorem's rule.
    """

    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clip is not None:
            check_number("mechanism.clip", self.clip, above=0)

    def reach(self, bound: float) -> float:
        """Returns the largest size of a clipped label: `clip`, or the bound.

        Raises:
            InputError: neither is there.
        """
        reach = bound if self.clip is None else self.clip
        if math.isinf(reach):
            raise InputError(
                "mechanism.clip must be given for labels without a bound (or use "
                "learner.tuning=theory, which chooses it)"
            )
        return reach

    def summary(self) -> dict[str, object]:
        """Returns what is worth a line without the clip, and the clip."""
        return super().summary() | ({} if self.clip is None else {"clip": self.clip})


ENTRIES_AT_ONCE = 2**14  # drawn together: few enough to stay in the cache
GRID_STEP = 2.0**-10
"""Step of the grid on which noise and outputs lie."""


@dataclass(frozen=True)
class AdditiveLaplace(ClassMechanism):
    """Adds discrete Laplace noise of scale 2/eps to each entry of the one-hot label.

    eps-label-DP under label replacement, tight: a replaced label moves the one-hot vector by 2 in
    L1, reached where the one entry is >= 1 and the other <= 0. Noise and outputs are multiples of
    1/1024, which float32 holds exactly down to eps of about 0.01; below, rounding happens after the
    draw and does not see the label. How far noise reaches: `noise.one_word_laplace`; a finite eps
    above 30 is refused when labels are released.

    Source: Malek Esmaeili et al. (2021), "Antipodes of label differential privacy: PATE and
    ALIBI", arXiv:2106.03408. Its `sigma` is the standard deviation 2 sqrt(2) / eps, not the scale.

    >>> AdditiveLaplace(eps=1.0).scale
    2.0
    """

    known_as = ("alibi",)

    draws = 4
    distribution = 2
    most_eps = 30.0

    @property
    def scale(self) -> float:
        """Scale b of the noise; its standard deviation is sqrt(2) b."""
        return 2 / self.eps

    def release(
        self, labels: Tensor, num_classes: int, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns float32 reals (N, K); O(N K)."""
        check_labels(labels, num_classes)
        check_reach(self.eps, self.most_eps)
        stream = numpy_stream(generator)
        released = np.zeros((len(labels), num_classes), np.float32)
        if self.scale == 0:
            released[np.arange(len(labels)), labels.numpy()] = 1
            return torch.from_numpy(released)
        size = max(1, ENTRIES_AT_ONCE // num_classes)
        for start in range(0, len(labels), size):
            own = labels[start : start + size].numpy()
            noisy = one_word_laplace((len(own), num_classes), self.scale / GRID_STEP, stream)
            noisy[np.arange(len(own)), own] += round(1 / GRID_STEP)
            np.multiply(noisy, GRID_STEP, out=released[start : start + size], casting="same_kind")
        return torch.from_numpy(released)

    def log_likelihood(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the log-density of the reals under each label, float64 (N, K); O(N K).

        On the grid the differences between labels are exact; the level is that of the density.
        Labels differ in their own entry alone: |o| - |o - 1| = clip(2 o - 1, -1, 1). At eps=inf
        the output is the one-hot vector itself, with log-probability 0 or -inf.
        """
        reals = check_shape("reals", released, num_classes).to(torch.float64)
        magnitude = reals.abs()
        if self.scale == 0:
            # The distance to each label's one-hot vector.
            distance = magnitude.sum(1, keepdim=True) - magnitude + (reals - 1).abs()
            return two_levels(distance == 0, 0.0, -math.inf)
        common = -magnitude.sum(1, keepdim=True) / self.scale
        normaliser = num_classes * math.log(2 * self.scale)
        slope = (2 * reals).sub_(1).clamp_(-1, 1).div_(self.scale)
        return slope.add_(common).sub_(normaliser)

    def centred_log_likelihood(
        self, released: Tensor, num_classes: int, prior: Prior = None
    ) -> Tensor:
        """Returns the log-density less the largest of its row, float32 (N, K); O(N K).

        Leaves out what all labels of a row have in common.
        """
        if self.scale == 0:
            return super().centred_log_likelihood(released, num_classes, prior)
        clipped = check_shape("reals", released, num_classes).to(torch.float32).clamp(0, 1)
        return clipped.sub_(clipped.amax(1, keepdim=True)).mul_(2 / self.scale)

    def most_likely_labels(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the labels with the largest entry, bool (N, K); above 1 and below 0 all tie."""
        return self.centred_log_likelihood(released, num_classes, prior) == 0

    def extreme_outputs(self, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the K one-hot vectors, float32 (K, K).

        The ratio of two labels grows with the one's own entry up to 1 and falls with the
        other's down to 0.
        """
        return torch.eye(check_integer("num_classes", num_classes, low=2))

    def unbiased(self, released: Tensor, num_classes: int, prior: Prior = None) -> Tensor:
        """Returns the reals themselves, float64 (N, K): the noise has mean 0."""
        return check_shape("reals", released, num_classes).to(torch.float64)

    def bit_rates(self, num_classes: int) -> tuple[float, float] | None:
        """Returns 1 and 0 where there is no noise; else entries are no bits."""
        return (1.0, 0.0) if self.scale == 0 else None

    def told_of_uniform(self, num_classes: int) -> tuple[float, float, float]:
        """Returns the quadrature of `laplace_information`; see the base."""
        kept = argmax_retention(self.scale, num_classes)
        if self.scale == 0:
            return math.log(num_classes), 1.0, kept
        nats, own = laplace_information(2 / max(self.eps, SMALLEST_QUADRATURE_EPS), num_classes)
        smaller = min(1.0, self.eps / SMALLEST_QUADRATURE_EPS) ** 2
        return smaller * nats, smaller * explained_share(own, 1 / num_classes), kept

    def law(self, num_classes: int) -> dict[str, Any]:
        """Returns a law of kind `discrete_laplace`; see the base."""
        return {"kind": "discrete_laplace", "scale": self.scale, "step": GRID_STEP}

    def end_of_noise(self, eps: float) -> float:
        """Returns the reach less half of eps: a replaced label moves two entries alike."""
        return one_word_reach(self.scale / GRID_STEP) - eps / 2

    def summary(self) -> dict[str, object]:
        """Returns the noise as scale and as standard deviation (the paper's sigma)."""
        return {"scale": self.scale, "stddev": math.sqrt(2) * self.scale}


SMALLEST_QUADRATURE_EPS = 0.01
"""Below this eps the quadrature is too coarse, and the information is proportional to eps^2."""


def laplace_information(scale: float, num_classes: int) -> tuple[float, float]:
    """Returns what a noisy one-hot vector tells of its label: nats, and its posterior's mean.

    With T_j = clip(2 o_j - 1, -1, 1) / b, the log likelihood ratio of label j, the information is
    ln K + E T_own - E ln S with S = sum_j exp(T_j). The T_j are independent, so that
    E ln S = integral over t > 0 of (e^-t - E e^(-t S)) / t (Frullani) needs no draws: E e^(-t S) is
    a product of integrals over one entry. With t = e^u the trapezoidal rule is exact to 1e-9. So is
    the mean posterior of the own label, E exp(T_own) / S = integral of E exp(T_own - t S).

    Args:
        scale: b of the noise, > 0; 2 / eps is ALIBI's.
        num_classes: K >= 2, equally frequent.

    >>> round(laplace_information(scale=2 / 3, num_classes=10)[0] / math.log(2), 4)
    0.8977
    """
    # A wrong entry is noise: below 0, between, above 1. The own one mirrors it around 1/2.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    inside = (nodes + 1) / 2
    ratios = np.concatenate([[-1.0], nodes, [1.0]]) / scale
    tail = math.exp(-1 / scale) / 2
    density = weights / 2 * np.exp(-inside / scale) / (2 * scale)
    wrong: NDArray[np.float64] = np.concatenate([[0.5], density, [tail]])
    own = wrong[::-1]
    width = 0.03  # outside of these steps lies less than 1e-15
    t = np.exp(np.arange(-40 - 1 / scale, 8 + 1 / scale, width))
    decay = np.exp(-t[:, None] * np.exp(ratios))
    others = (decay @ wrong) ** (num_classes - 1)
    log_sum = width * float((np.exp(-t) - (decay @ own) * others).sum())
    posterior = width * float(t @ ((decay @ (np.exp(ratios) * own)) * others))
    return math.log(num_classes) + float(ratios @ own) - log_sum, posterior


def argmax_retention(scale: float, num_classes: int) -> float:
    """Returns how often the largest entry is the label's own, to 1e-9; O(K).

    That is P(1 + L_0 > L_1, ..., L_(K-1)) for independent Laplace noise. No guess is right more
    often: the likelihood ties all entries above 1, and any of those is as good a guess as another.

    The integral over the own entry has three parts, below 0, up to 1, and above. With n = K - 1 and
    u for the chance that noise exceeds it, the middle one is e^(-1/b) / 4 times the integral of
    (1 - u)^n / u^2 from e^(-1/b) / 2 to 1/2, by parts a finite sum.

    Args:
        scale: b of the noise, >= 0; 2 / eps is ALIBI's.
        num_classes: K >= 2.

    >>> round(argmax_retention(scale=2.0, num_classes=10), 4)
    0.1637
    """
    check_number("scale", scale, low=0)
    check_integer("num_classes", num_classes, low=2)
    if scale == 0:
        return 1.0
    others, apart = num_classes - 1, min(1 / scale, 700.0)  # e^-700 is 0 for every purpose
    decay = math.exp(-apart)
    above_one = decay / 2  # the chance that noise exceeds 1
    powers = np.arange(1, others)
    below = np.exp(powers * math.log1p(-above_one))
    logs = apart - float(((below - 0.5**powers) / powers).sum())
    low = decay / num_classes * 0.5**num_classes
    middle = (1 - above_one) ** others / 2 - decay / 4 * (2 * 0.5**others + others * logs)
    high = -math.expm1(num_classes * math.log1p(-above_one)) / (2 * num_classes * above_one)
    return min(1.0, low + middle + high)


@dataclass(frozen=True)
class Laplace(RealMechanism):
    """Adds discrete Laplace noise of scale 2 bound / eps to the label, on a grid.

    eps-label-DP under label replacement, tight: two labels are at most 2 bound apart, and the
    ratio e^eps is reached by the outermost ones wherever the output is beyond both. Labels are
    rounded to a grid of some 2,000 to 4,000 steps (`noise.step_of`), and so is the bound that the
    scale is made of: eps is that of what is released, rounding included. A finite eps above 20 is
    refused when labels are released: see `noise.check_reach`.

    Source: Zhao et al. (2025), theoretical_limits, section V-A (its T is our bound).

    >>> Laplace(eps=0.5).scale(1.0)
    4.0
    """

    known_as = ("laplace",)

    draws = 3
    distribution = 2
    most_eps = 20.0
    noise_reach = LAPLACE_REACH

    def reach(self, bound: float) -> float:
        """Returns the largest size of a label that noise is added to."""
        if math.isinf(bound):
            raise InputError(
                "mechanism=laplace needs bounded labels, and these have no bound "
                "(use mechanism=clipped_laplace)"
            )
        return bound

    def scale(self, bound: float) -> float:
        """Returns the scale b of the noise; its standard deviation is sqrt(2) b."""
        reach = self.reach(bound)
        step = step_of(reach)
        return 2 * round(reach / step) * step / self.eps

    def release(
        self, values: Tensor, bound: float, generator: Noise, prior: Prior = None
    ) -> Tensor:
        """Returns the label, clipped to what is reached, plus noise, float64 (N,).

        Multiples of the grid's step; at eps=inf the label as it is.
        """
        reach, scale = self.reach(bound), self.scale(bound)
        check_reach(self.eps, self.most_eps)
        if scale == 0:
            return values.clamp(-reach, reach)
        step = step_of(reach)
        noise = discrete_laplace(values.shape, scale / step, numpy_stream(generator))
        return (on_grid(values, reach) + torch.from_numpy(noise)) * step

    def release_groups(
        self, values: Tensor, bound: float, groups: Tensor, num_groups: int, generator: Noise
    ) -> Tensor:
        """Returns sums of releases, float64 (G,); from a seed, from their exact distribution."""
        reach, scale = self.reach(bound), self.scale(bound)
        if scale == 0 or isinstance(generator, SecretGenerator):  # single ones reach farther
            return super().release_groups(values, bound, groups, num_groups, generator)
        check_reach(self.eps, self.most_eps)
        step, sizes = step_of(reach), group_sizes(groups, num_groups)
        noise = laplace_sums(sizes, scale / step, numpy_stream(generator))
        return (group_sums(on_grid(values, reach), groups, num_groups) + noise) * step

    def log_density(
        self, released: Tensor, values: Tensor, bound: float, prior: Prior = None
    ) -> Tensor:
        """Returns -|z - y| / b - log 2b, float64 (R, V), of labels on the grid.

        On the grid the differences between labels are exact, which is all that eps and a likelihood
        need; the level is that of the density. At eps=inf 0 or -inf.
        """
        reach, scale = self.reach(bound), self.scale(bound)
        if scale == 0:
            return exact_match(released, values.clamp(-reach, reach))
        values = on_grid(values, reach) * step_of(reach)
        return -(released[:, None] - values[None, :]).abs() / scale - math.log(2 * scale)

    def breakpoints(self, bound: float, prior: Prior = None) -> tuple[Tensor, Tensor]:
        """Returns the ends of the range: |z - y| - |z - y'| is extreme where z is at an end."""
        reach = self.reach(bound)
        ends = torch.tensor([-reach, 0.0, reach], dtype=torch.float64)
        return ends, ends

    def summary(self) -> dict[str, object]:
        """Returns the scale of the noise per unit of the bound."""
        return {"scale_per_bound": 2 / self.eps}


@dataclass(frozen=True)
class ClippedLaplace(ClippingMechanism, Laplace):
    """Clips the label to [-clip, clip], then adds Laplace noise of scale 2 clip / eps.

    eps-label-DP under label replacement, tight. Clipping makes the release biased.

    Source: Zhao et al. (2025), theoretical_limits, section VI-A and Theorem 10; clip is its T.

    >>> ClippedLaplace(eps=1.0, clip=3.0).scale(float("inf"))
    6.0
    """

    mean_is_label: ClassVar[bool] = False

    def summary(self) -> dict[str, object]:
        """Returns the clip and the scale of the noise."""
        if self.clip is None:
            return {}
        return {"clip": self.clip, "scale": 2 * self.clip / self.eps}
