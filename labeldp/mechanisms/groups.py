"""What a curator releases of groups of labels: means, classes, noisy counts."""

import itertools
import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from labeldp.mechanisms.laplace import ClippingMechanism
from labeldp.mechanisms.measurement import Measurement, Trust, check_members, made_up_label
from labeldp.mechanisms.noise import (
    LAPLACE_REACH,
    SUMS_REACH,
    Noise,
    Prior,
    check_reach,
    discrete_laplace,
    group_counts,
    group_sizes,
    group_sums,
    laplace_sums,
    numpy_stream,
    on_grid,
    step_of,
    uniforms,
)
from labeldp.support.validate import InputError, check_choice, check_number

NO_MEMBERS = torch.zeros(0, dtype=torch.int64)
"""No groups: those of a measurement that is not bound to a data set."""


@dataclass(frozen=True)
class GroupMechanism(Measurement):
    """Releases one answer for each group of labels; groups come from features and are disjoint.

    eps-DP if one example is replaced: its label alone (`protects` is "labels"), so that only one
    group changes, or its features too ("labels and features"), so that two groups may change.

    The answer is one class for each group, int64 (G,), one mean, float64 (G,), or sums.

    Args:
        groups: int64 (N,), the group of each label, in [0, G); public, given by `over`.
        num_groups: G, fixed in advance.
    """

    trust = Trust.CENTRAL

    _: KW_ONLY
    groups: Tensor = field(default=NO_MEMBERS, repr=False, compare=False)
    num_groups: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_members("groups", self.groups, len(self.groups))

    @property
    def key(self) -> str:
        """Says how many groups there are."""
        return f"{super().key}/groups={self.num_groups}"

    @property
    def context(self) -> Tensor:
        """The groups."""
        return self.groups

    def over(self, groups: Tensor, num_groups: int) -> Self:
        """Returns the same measurement of these groups."""
        return replace(self, groups=groups, num_groups=num_groups)

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses groups of other labels, and what is refused of a made-up label."""
        super().check(count, limit, noise, prior)
        check_members("groups", self.groups, count)
        self.over(torch.tensor([0]), 1)(made_up_label(limit), limit, noise)

    @abstractmethod
    def worst_log_ratio(self, num_classes: int, bound: float = 1.0) -> float:
        """Returns the largest log ratio of any answer's probability over neighbouring data sets.

        Neighbours differ in one label, or in one whole example where features are protected, so
        that two groups may change; groups answer independently, so their log ratios add up.

        Args:
            num_classes: K, of mechanisms for classes.
            bound: of real labels, where the mechanism does not clip.
        """

    def stated_epsilon(self, num_classes: int) -> tuple[float, str]:
        """Returns the largest log ratio over small data sets."""
        how = f"over neighbouring small data sets, {self.trust}, protects {self.protects}"
        return self.worst_log_ratio(min(num_classes, 3)), how

    def summary(self) -> dict[str, object]:
        """Returns what is protected, for the record."""
        return {"protects": self.protects}


def moved_counts() -> float:
    """Returns how far one replaced label moves the counts of classes, in L1."""
    before, after = torch.eye(2, dtype=torch.float64)
    return float((before - after).abs().sum())


MOST_LABELS = 40
"""Labels of the largest data sets that are searched for the worst log ratio."""


class NoisyCounts(Measurement):
    """Counts with discrete Laplace noise: a replaced label moves two of them by 1."""

    draws = 3
    distribution = 2
    most_eps = 40.0
    noise_reach = LAPLACE_REACH
    moved_noises = 2

    @property
    def scale(self) -> float:
        """Scale of the noise on each count."""
        return 2 / self.eps

    def noisy(self, counts: Tensor, noise: Noise) -> Tensor:
        """Returns counts with noise, whole numbers, float64; some are negative."""
        drawn = discrete_laplace(counts.shape, self.scale, numpy_stream(noise))
        return (counts + torch.from_numpy(drawn)).to(torch.float64)

    def worst_log_ratio(self, num_classes: int, bound: float = 1.0) -> float:
        """Returns what one label moves, in scales of the noise."""
        return moved_counts() / self.scale if self.scale else math.inf


@dataclass(frozen=True)
class LaplaceHistogram(NoisyCounts):
    """Counts of all labels with discrete Laplace noise, float64 (K,); central.

    eps-label-DP under label replacement, tight.

    >>> LaplaceHistogram(eps=0.5).scale
    4.0
    """

    known_as = ("histogram",)

    trust = Trust.CENTRAL

    @property
    def key(self) -> str:
        """As records of older versions spell it."""
        return f"LaplaceHistogram(eps={self.eps!r})"

    def stated_epsilon(self, num_classes: int) -> tuple[float, str]:
        """Returns what one label moves, in scales of the noise."""
        return self.worst_log_ratio(num_classes), "from the stated scale and what one label moves"

    def check(self, count: int, limit: Any, noise: Noise, prior: Prior = None) -> None:
        """Refuses an eps beyond the reach of the noise, and a prior."""
        super().check(count, limit, noise, prior)
        self(made_up_label(limit), limit, noise)

    def __call__(self, labels: Tensor, limit: int, noise: Noise) -> Tensor:
        """Returns the noisy counts; some are negative."""
        check_reach(self.eps, self.most_eps)
        return self.noisy(torch.bincount(labels, minlength=limit), noise)


@dataclass(frozen=True)
class CubeMeans(GroupMechanism):
    """Releases each cube's mean label with discrete Laplace noise of scale 2 bound / (n eps).

    eps-label-DP, tight: a replaced label moves the mean of n by up to 2 bound / n, and n is public
    as features are. 0 where a cube is empty. Labels are rounded to a grid (`noise.step_of`), their
    sum has noise in whole steps, and is divided afterwards.

    Source: Zhao et al. (2025), theoretical_limits, equation 25.
    """

    known_as = ("cube_means",)

    draws = 3
    distribution = 2
    most_eps = 20.0
    noise_reach = LAPLACE_REACH
    tasks: ClassVar[tuple[str, ...]] = ("regression",)

    def reach(self, bound: float) -> float:
        """Returns the largest size of a label that is averaged."""
        if math.isinf(bound):
            raise InputError(
                "cube means need bounded labels, and these have no bound "
                "(use mechanism=clipped_cube_means)"
            )
        return bound

    def divisors(self, sizes: Tensor) -> Tensor:
        """Returns what sums are divided by, float64 (G,), at least 1."""
        return sizes.to(torch.float64).clamp_min(1)

    def means(self, labels: Tensor, reach: float, sizes: Tensor) -> Tensor:
        """Returns the means of clipped labels without noise, float64 (G,)."""
        sums = group_sums(labels.clamp(-reach, reach), self.groups, self.num_groups)
        return sums / self.divisors(sizes)

    def scales(self, sizes: Tensor, bound: float) -> Tensor:
        """Returns the scale of each cube's noise, float64 (G,); 0 for an empty cube."""
        reach = self.reach(bound)
        step = step_of(reach)
        scale = 2 * round(reach / step) * step / (self.divisors(sizes) * self.eps)
        return torch.where(sizes > 0, scale, 0.0)

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns one mean for each cube, float64 (G,)."""
        reach, sizes = self.reach(limit), group_sizes(self.groups, self.num_groups)
        check_reach(self.eps, self.most_eps)
        if math.isinf(self.eps):
            return self.means(labels, reach, sizes)
        step, stream = step_of(reach), numpy_stream(noise)
        drawn = laplace_sums((sizes > 0).long(), 2 * round(reach / step) / self.eps, stream)
        sums = group_sums(on_grid(labels, reach), self.groups, self.num_groups)
        return (sums + drawn) * step / self.divisors(sizes)

    def worst_log_ratio(self, num_classes: int, bound: float = 1.0) -> float:
        """Searches cubes of up to 40 labels at the ends of the range: a mean is linear in each."""
        reach = self.reach(bound)
        step = step_of(reach)
        reach = round(reach / step) * step  # where labels lie
        sizes = torch.arange(1.0, MOST_LABELS + 1, dtype=torch.float64)
        return float((2 * reach / sizes / self.scales(sizes, bound)).max())


@dataclass(frozen=True)
class ClippedCubeMeans(ClippingMechanism, CubeMeans):
    """The same for labels without a bound, which are clipped to [-clip, clip] first.

    Source: Zhao et al. (2025), theoretical_limits, equation 30 and Theorem 12.
    """


@dataclass(frozen=True)
class FullCubeMeans(CubeMeans):
    """Cube means where features are secret too.

    eps-DP under replacement of a whole example. n is secret here, so each sum is divided by
    max(n, n_0), with n_0 half of what a cube holds at the lowest density. A moved example changes
    two cubes by up to 2 bound / n_0 each: noise of scale 4 bound / (n_0 eps). Means are rounded to
    a grid before whole steps of noise are added; two steps more of scale, a millionth, pay for the
    rounding.

    Source: Zhao et al. (2025), theoretical_limits, equation 35.

    Args:
        density: lower bound of the density of the features, public; 1 for uniform ones.
    """

    known_as = ("full_cube_means",)

    density: float = 1.0

    most_eps = 40.0
    moved_noises = 2
    protects: ClassVar[str] = "labels and features"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("mechanism.density", self.density, above=0)

    def floor(self, sizes: Tensor) -> float:
        """Returns n_0."""
        return self.density * float(sizes.sum()) / len(sizes) / 2

    def step(self, sizes: Tensor, bound: float) -> float:
        """Returns the step of the grid of means."""
        return step_of(4 * self.reach(bound) / self.floor(sizes)) / 1024

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns one mean for each cube, float64 (G,)."""
        reach, sizes = self.reach(limit), group_sizes(self.groups, self.num_groups)
        check_reach(self.eps, self.most_eps)
        means = self.means(labels, reach, sizes)
        if math.isinf(self.eps):
            return means
        step, scale = self.step(sizes, limit), float(self.scales(sizes, limit)[0])
        drawn = discrete_laplace((self.num_groups,), scale / step, numpy_stream(noise))
        return ((means / step).round() + torch.from_numpy(drawn)) * step

    def divisors(self, sizes: Tensor) -> Tensor:
        """Returns max(n, n_0), float64 (G,)."""
        return sizes.to(torch.float64).clamp_min(self.floor(sizes))

    def scales(self, sizes: Tensor, bound: float) -> Tensor:
        """Returns the same scale for every cube, float64 (G,)."""
        moved = 4 * self.reach(bound) / self.floor(sizes)
        scale = (moved + 2 * self.step(sizes, bound)) / self.eps
        return torch.full(sizes.shape, scale, dtype=torch.float64)

    def worst_log_ratio(self, num_classes: int, bound: float = 1.0) -> float:
        """Searches two cubes whose average size is public, and an example that changes cube."""
        reach, worst = self.reach(bound), 0.0
        for average in range(1, MOST_LABELS):
            sizes = torch.tensor([average, average])
            scale, floor = float(self.scales(sizes, bound)[0]), self.floor(sizes)
            moves = max(_moved_mean(others, reach, floor) for others in range(2 * average))
            stays = 2 * reach / max(1, floor)
            worst = max(worst, 2 * moves / scale, stays / scale)
        return worst


def _moved_mean(others: int, reach: float, floor: float) -> float:
    """Returns how far a mean can move if one label leaves or enters a cube of `others`."""
    moves = []
    for own, rest in itertools.product((-reach, reach), repeat=2):
        without = others * rest / max(others, floor)
        with_it = (others * rest + own) / max(others + 1, floor)
        moves.append(abs(with_it - without))
    return max(moves)


@dataclass(frozen=True)
class FullClippedCubeMeans(FullCubeMeans, ClippedCubeMeans):
    """`FullCubeMeans` of clipped labels.

    Source: Zhao et al. (2025), theoretical_limits, equations 36 to 38.
    """


SMALLEST_EXPONENTIAL = 1e-300
"""Stands for an exponential variable of 0, whose Gumbel variable would be infinite."""


@dataclass(frozen=True)
class ExponentialCubes(GroupMechanism):
    """Draws a class for each cube with P(j) proportional to exp(weight n_j), n_j its count there.

    With weight eps/2 eps-label-DP: a replaced label moves one count down and another up. The
    worst log ratio approaches eps as the number of labels grows.

    Source: Zhao et al. (2025), theoretical_limits, equation 19; McSherry, Talwar (2007).
    """

    known_as = ("exponential_cubes",)

    most_eps = 650.0
    noise_reach = -math.log(SMALLEST_EXPONENTIAL)

    @property
    def weight(self) -> float:
        """What one label adds to the log-probability of its class."""
        return self.eps / 2

    def log_probabilities(self, counts: Tensor) -> Tensor:
        """Returns the log-probability of each class, float64 (G, K), from counts (G, K)."""
        return (self.weight * counts.to(torch.float64)).log_softmax(1)

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns one class for each cube, int64 (G,); uniform where a cube is empty."""
        check_reach(self.eps, self.most_eps)
        counts = group_counts(labels, int(limit), self.groups, self.num_groups)
        uniform = uniforms(counts.shape, noise)
        if math.isinf(self.eps):  # the most frequent class; less than half a count breaks ties
            return (counts + uniform / 2).argmax(1)
        # The largest score plus Gumbel noise is a draw from the softmax of the scores.
        gumbel = -(-torch.log1p(-uniform)).clamp_min(SMALLEST_EXPONENTIAL).log()
        return (self.weight * counts + gumbel).argmax(1)

    def worst_log_ratio(self, num_classes: int, bound: float = 1.0) -> float:
        """Searches all class counts of up to 40 labels.

        K = 3 suffices for any K: only the old class, the new one and one more matter.
        """
        top = MOST_LABELS if num_classes == 2 else MOST_LABELS // 3
        counts = torch.tensor(list(itertools.product(range(top + 1), repeat=num_classes)))
        before = self.log_probabilities(counts)

        def worst(change: Tensor) -> float:
            valid = (counts + change >= 0).all(1)
            after = self.log_probabilities(counts[valid] + change)
            return float((after - before[valid]).abs().max())

        one = torch.eye(num_classes, dtype=torch.int64)
        pairs = itertools.permutations(range(num_classes), 2)
        replaced = max(worst(one[b] - one[a]) for a, b in pairs)
        if self.protects == "labels":
            return replaced
        moved = max(worst(-one[a]) for a in range(num_classes))
        moved += max(worst(one[a]) for a in range(num_classes))
        return max(replaced, moved)


@dataclass(frozen=True)
class FullExponentialCubes(ExponentialCubes):
    """The exponential mechanism in each cube where features are secret too.

    eps-DP under replacement of a whole example. A moved example takes a count from one cube and
    adds one to another, and each costs no more than its weight. So the paper's weight eps/4 spends
    eps/2 alone, and eps/2 suffices (docs/theory.md): equation 19 is eps-DP as it stands.

    Source: Zhao et al. (2025), theoretical_limits, equation 33.

    Args:
        constant: `paper` (weight eps/4, in truth eps/2-DP) or `tight` (weight eps/2).
    """

    known_as = ("full_exponential_cubes",)

    constant: str = "paper"

    protects: ClassVar[str] = "labels and features"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism.constant", self.constant, ("paper", "tight"))

    @property
    def weight(self) -> float:
        """What one label adds to the log-probability of its class."""
        return self.eps / 4 if self.constant == "paper" else self.eps / 2


@dataclass(frozen=True)
class NoisyClusters(NoisyCounts, GroupMechanism):
    """Releases how often each class occurs in each group, plus whole numbers of noise.

    eps-label-DP, tight.

    Source: Tang et al. (2022), NoiseCluster, who add Gaussian noise under (eps, delta); pure noise
    is ours.
    """

    known_as = ("noisy_clusters",)

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns noisy counts, float64 (G, K)."""
        check_reach(self.eps, self.most_eps)
        counts = group_counts(labels, int(limit), self.groups, self.num_groups)
        return self.noisy(counts, noise)


@dataclass(frozen=True)
class LocalFull(ClippingMechanism, GroupMechanism):
    """Every example releases its indicator over cubes x classes with Laplace noise of scale 2/eps.

    eps-DP under replacement of a whole example, tight: the indicator moves by 2 in L1. Real labels:
    half of eps goes to the indicator over cubes, half to the label in its cube (clipped, moved by
    up to 2 bound in L1): scales 4/eps and 4 bound/eps. Noise is discrete, on whole numbers
    and on a grid of labels (`noise.step_of`). All N examples add noise to every entry, so
    the sums of noise are drawn from their exact distribution.

    Source: as Berrett, Butucea (2019), arXiv:1912.04629, for classes; the comparison row of Zhao
    et al. (2025), theoretical_limits, table I.
    """

    known_as = ("local_full",)

    draws = 3
    distribution = 2
    most_eps = 27.0
    noise_reach = SUMS_REACH
    moved_noises = 2
    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    trust = Trust.LOCAL
    protects: ClassVar[str] = "labels and features"

    @property
    def class_scale(self) -> float:
        """Scale of the noise on an indicator over cubes x classes."""
        return 2 / self.eps

    @property
    def size_scale(self) -> float:
        """Scale of the noise on an indicator over cubes, which goes with a real label."""
        return 4 / self.eps

    def value_scale(self, clip: float) -> float:
        """Returns the scale of the noise on a real label in its cube."""
        return 4 * clip / self.eps

    def __call__(self, labels: Tensor, limit: Any, noise: Noise) -> Tensor:
        """Returns noisy class counts, float64 (G, K), or for real labels noisy means, (G,)."""
        check_reach(self.eps, self.most_eps)
        if not labels.is_floating_point():
            counts = group_counts(labels, int(limit), self.groups, self.num_groups)
            everyone = torch.full_like(counts, len(labels))
            return counts + laplace_sums(everyone, self.class_scale, numpy_stream(noise))
        sums, sizes = self.noisy_sums(labels, limit, noise)
        # A mean cannot be beyond the clip; a size below half the average is noise.
        clip = self.reach(limit)
        return (sums / sizes.clamp_min(len(labels) / self.num_groups / 2)).clamp(-clip, clip)

    def noisy_sums(self, values: Tensor, bound: float, noise: Noise) -> tuple[Tensor, Tensor]:
        """Returns sums and sizes of groups, float64 (G,): all that examples release."""
        stream, clip = numpy_stream(noise), self.reach(bound)
        step, sizes = step_of(clip), group_sizes(self.groups, self.num_groups)
        everyone = torch.full_like(sizes, len(values))
        sums = group_sums(on_grid(values, clip), self.groups, self.num_groups)
        drawn = laplace_sums(everyone, self.value_scale(round(clip / step)), stream)
        return (sums + drawn) * step, sizes + laplace_sums(everyone, self.size_scale, stream)

    def worst_log_ratio(self, num_classes: int, bound: float = 1.0) -> float:
        """Divides the L1 distance of two examples' vectors by the scales of the noise.

        An example's vector has one entry per cube (and class). Two cubes suffice, and real labels
        at the ends of their range.
        """
        if math.isinf(self.eps):
            return math.inf
        clip = bound if self.clip is None else self.clip
        indicators = torch.eye(2, dtype=torch.float64)
        worst = moved_counts() / self.class_scale
        ends = itertools.product(range(2), (-clip, clip))
        for (cube, label), (other, new) in itertools.permutations(ends, 2):
            sizes = float((indicators[cube] - indicators[other]).abs().sum())
            values = float((label * indicators[cube] - new * indicators[other]).abs().sum())
            worst = max(worst, sizes / self.size_scale + values / self.value_scale(clip))
        return worst
