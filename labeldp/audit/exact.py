"""The formula half of an audit: the eps that a mechanism's statements imply."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator

import torch
from scipy.optimize import brentq
from torch import Tensor

from labeldp.mechanisms import (
    AdditiveLaplace,
    ClassMechanism,
    CubeMeans,
    ExponentialCubes,
    FullCubeMeans,
    GroupMechanism,
    LabelDPPro,
    Laplace,
    LaplaceHistogram,
    LocalFull,
    Measurement,
    NoisyClusters,
    NoisyMoments,
    PateFM,
    RealMechanism,
)
from labeldp.mechanisms.groups import SMALLEST
from labeldp.mechanisms.laplace import STEP
from labeldp.mechanisms.moments import LOST_SHARE, gaussian_delta, lost_delta, poisson_delta
from labeldp.mechanisms.noise import (
    EXCLUDED,
    LAPLACE_REACH,
    SUMS_REACH,
    check_sums,
    one_word_reach,
    step_of,
)
from labeldp.support.validate import InputError, check_integer

CHUNK = 50_000
MOST_LABELS = 40
"""Of the small data sets that are searched."""


def formula_epsilon(
    measurement: Measurement, num_classes: int, prior: Tensor | None = None
) -> tuple[float, str]:
    """Returns the eps that the statements of a mechanism imply, and how that was found, in words.

    Infinity where additive noise ends so near that outputs exclude a label too often.

    Raises:
        InputError: no audit of such a mechanism is known.
    """
    eps, how = _stated_epsilon(measurement, num_classes, prior)
    if math.isfinite(eps) and (excluded := excluded_share(measurement, eps)) > EXCLUDED:
        return math.inf, f"as noise ends: up to {excluded:.2g} of outputs exclude a label for sure"
    return eps, how


def excluded_share(measurement: Measurement, eps: float) -> float:
    """Returns how likely an output is, at most, that excludes a label, since noise has an end.

    A replaced label moves what exponentially falling noise is added to by some of its scales. As
    much of the noise as lies beyond its reach less these gives outputs that the other label cannot
    give. 0 for mechanisms without such noise; of normal noise see `_epsilon_at`.

    Args:
        measurement: any.
        eps: that its statements imply, finite.
    """
    shift, reach = 0.0, math.inf
    if isinstance(measurement, AdditiveLaplace):  # a replaced label moves two entries alike
        shift, reach = eps / 2, one_word_reach(measurement.scale / STEP)
    elif isinstance(measurement, LocalFull):
        shift, reach = eps / 2, SUMS_REACH
    elif isinstance(measurement, LaplaceHistogram | NoisyClusters | FullCubeMeans):
        shift, reach = eps / 2, LAPLACE_REACH
    elif isinstance(measurement, Laplace | CubeMeans):
        shift, reach = eps, LAPLACE_REACH
    elif isinstance(measurement, ExponentialCubes):
        shift, reach = eps, -math.log(SMALLEST)
    return math.exp(min(0.0, shift - reach))


def _stated_epsilon(
    measurement: Measurement, num_classes: int, prior: Tensor | None
) -> tuple[float, str]:
    """Returns the same of statements about all numbers, as if noise had no end."""
    trust = measurement.trust
    if isinstance(measurement, ClassMechanism):
        return exact_epsilon(measurement, num_classes, prior), "exactly, from the likelihood"
    if isinstance(measurement, RealMechanism):
        return exact_real_epsilon(measurement), "from the density at its breakpoints"
    if isinstance(measurement, GroupMechanism):
        how = f"over neighbouring small data sets, {trust}, protects {measurement.protects}"
        return group_epsilon(measurement, min(num_classes, 3)), how
    if isinstance(measurement, NoisyMoments | LabelDPPro):
        how = f"from the stated noise and what one label moves, {trust}"
        return sums_epsilon(measurement), how
    if isinstance(measurement, PateFM):
        return vote_noise_epsilon(
            measurement
        ), f"from both noises and what one teacher moves, {trust}"
    if isinstance(measurement, LaplaceHistogram):
        how = "from the stated scale and what one label moves"
        return moved_counts() / measurement.scale if measurement.scale else math.inf, how
    raise InputError(f"no audit is known for {measurement.name}")


def exact_epsilon(
    mechanism: ClassMechanism, num_classes: int, prior: Tensor | None = None
) -> float:
    """Returns the largest log ratio of the likelihoods of two labels, over all outputs.

    Enumerates the output space; where that is infinite or too large, the mechanism's extreme
    outputs, among which the worst ratio is attained. Trusts the likelihood, and draws nothing.

    Args:
        mechanism: any with an output space or extreme outputs.
        num_classes: K >= 2.
        prior: global, float64 (K,), or None for uniform.

    Returns:
        Infinity too if a likelihood is NaN somewhere, or if no output is possible.

    Raises:
        InputError: the likelihoods do not sum to 1.
    """
    check_integer("num_classes", num_classes, low=2)
    try:
        outputs, are_all = mechanism.output_space(num_classes, prior), True
    except InputError:
        outputs, are_all = mechanism.extreme_outputs(num_classes, prior), False
    sums = torch.zeros(num_classes, dtype=torch.float64)

    def likelihoods() -> Iterator[Tensor]:
        for part in outputs.split(CHUNK):
            found = mechanism.log_likelihood(part, num_classes, prior)
            sums.add_(found.exp().sum(0))
            yield found

    worst = _worst_ratio(likelihoods())
    if are_all and math.isfinite(worst):
        # The ratios of what is no law say nothing of the draws.
        check_sums(sums, "the likelihoods of all outputs under label {} sum to {:.6g}, not to 1")
    return worst


def exact_real_epsilon(mechanism: RealMechanism, bound: float = 1.0) -> float:
    """Returns the largest log ratio of the densities under two labels, over the breakpoints.

    Infinity too if a density is NaN somewhere, or 0 everywhere.
    """
    outputs, values = mechanism.breakpoints(bound)
    return _worst_ratio([mechanism.log_density(outputs, values, bound)])


def _worst_ratio(log_likelihoods: Iterable[Tensor]) -> float:
    """Returns the largest log ratio within any row; infinity where it cannot be told."""
    largest = []
    for part in log_likelihoods:
        if part.isnan().any():
            return math.inf
        high, low = part.max(1).values, part.min(1).values
        # An output that no label gives says nothing, and its -inf - -inf would be NaN.
        ratios = (high - low)[high > -math.inf]
        largest += [float(ratios.max())] if len(ratios) else []
    return max(largest, default=math.inf)


def group_epsilon(mechanism: GroupMechanism, num_classes: int = 2, bound: float = 1.0) -> float:
    """Returns the largest log ratio of any answer's probability over neighbouring data sets.

    Neighbours differ in one label, or in one whole example where features are protected, so that
    two groups may change; groups answer independently, so their log ratios add up.

    Args:
        mechanism: `ExponentialCubes`, `NoisyClusters`, `CubeMeans`, `LocalFull`, or a subclass.
        num_classes: K, of mechanisms for classes.
        bound: of real labels, where the mechanism does not clip.
    """
    if isinstance(mechanism, ExponentialCubes):
        return _exponential(mechanism, num_classes)
    if isinstance(mechanism, NoisyClusters):
        return moved_counts() / mechanism.scale if mechanism.scale else math.inf
    if isinstance(mechanism, CubeMeans):
        return _means(mechanism, bound)
    if isinstance(mechanism, LocalFull):
        return _local_full(mechanism)
    raise InputError(f"no exact audit is known for {mechanism.name}")


def moved_counts() -> float:
    """Returns how far one replaced label moves the counts of classes, in L1."""
    before, after = torch.eye(2, dtype=torch.float64)
    return float((before - after).abs().sum())


def _exponential(mechanism: ExponentialCubes, num_classes: int) -> float:
    """Searches all class counts of up to 40 labels.

    K = 3 suffices for any K: only the old class, the new one and one more matter.
    """
    top = MOST_LABELS if num_classes == 2 else MOST_LABELS // 3
    counts = torch.tensor(list(itertools.product(range(top + 1), repeat=num_classes)))
    before = mechanism.log_probabilities(counts)

    def worst(change: Tensor) -> float:
        valid = (counts + change >= 0).all(1)
        after = mechanism.log_probabilities(counts[valid] + change)
        return float((after - before[valid]).abs().max())

    one = torch.eye(num_classes, dtype=torch.int64)
    replaced = max(worst(one[b] - one[a]) for a, b in itertools.permutations(range(num_classes), 2))
    if mechanism.protects == "labels":
        return replaced
    moved = max(worst(-one[a]) for a in range(num_classes))
    moved += max(worst(one[a]) for a in range(num_classes))
    return max(replaced, moved)


def _means(mechanism: CubeMeans, bound: float) -> float:
    """Searches cubes of up to 40 labels at the ends of the range: a mean is linear in each."""
    reach, worst = mechanism.reach(bound), 0.0
    if not isinstance(mechanism, FullCubeMeans):
        step = step_of(reach)
        reach = round(reach / step) * step  # where labels lie
        sizes = torch.arange(1.0, MOST_LABELS + 1, dtype=torch.float64)
        return float((2 * reach / sizes / mechanism.scales(sizes, bound)).max())
    # Two cubes whose average size is public; one example moves from one cube to the other.
    for average in range(1, MOST_LABELS):
        scale = float(mechanism.scales(torch.tensor([average, average]), bound)[0])
        floor = mechanism.floor(torch.tensor([average, average]))
        leaves = max(_shift(n, -1, reach, floor) for n in range(1, 2 * average + 1))
        enters = max(_shift(n, 1, reach, floor) for n in range(0, 2 * average))
        stays = max(2 * reach / max(n, floor) for n in range(1, 2 * average + 1))
        worst = max(worst, (leaves + enters) / scale, stays / scale)
    return worst


def _shift(size: int, change: int, reach: float, floor: float) -> float:
    """Returns how far a mean can move if one label leaves (-1) or enters (1) a cube."""
    others = size - 1 if change < 0 else size
    moves = []
    for own, rest in itertools.product((-reach, reach), repeat=2):
        without = others * rest / max(others, floor)
        with_it = (others * rest + own) / max(others + 1, floor)
        moves.append(abs(with_it - without))
    return max(moves)


def _local_full(mechanism: LocalFull) -> float:
    """Divides the L1 distance of two examples' vectors by the scales of the noise.

    An example's vector has one entry per cube (and class). Two cubes suffice, and real labels at
    the ends of their range.
    """
    if math.isinf(mechanism.eps):
        return math.inf
    clip = 1.0 if mechanism.clip is None else mechanism.clip
    indicators = torch.eye(2, dtype=torch.float64)
    worst = moved_counts() / mechanism.class_scale
    ends = itertools.product(range(2), (-clip, clip))
    for (cube, label), (other, new) in itertools.permutations(ends, 2):
        sizes = float((indicators[cube] - indicators[other]).abs().sum())
        values = float((label * indicators[cube] - new * indicators[other]).abs().sum())
        worst = max(worst, sizes / mechanism.size_scale + values / mechanism.value_scale(clip))
    return worst


def sums_epsilon(mechanism: NoisyMoments | LabelDPPro) -> float:
    """Returns the eps that the stated noise has at the stated delta, over two neighbours.

    They differ in the label of one example, whose row has length 1. What that moves is measured
    here, not taken from the mechanism.
    """
    if math.isinf(mechanism.eps):
        return math.inf
    if isinstance(mechanism, NoisyMoments):
        # The sums of two classes, before and after.
        moved = float(torch.eye(2, dtype=torch.float64).diff(dim=0).norm())
        stddev = mechanism.stddev / moved
        return _epsilon_at(mechanism.delta, mechanism.eps, lambda eps: gaussian_delta(eps, stddev))
    # A network's gradients may be opposed: sqrt(2) times as far apart as rows.
    least, steps = min(mechanism.stddev, mechanism.descent_stddev / math.sqrt(2)), mechanism.steps
    return _epsilon_at(
        mechanism.delta,
        mechanism.eps,
        lambda eps: poisson_delta(eps, least, steps, mechanism.share),
    )


def vote_noise_epsilon(mechanism: PateFM) -> float:
    """Returns the eps that the stated noise has at the stated delta, over two neighbours.

    They differ in the vote of one teacher on every query. What that moves is measured here, not
    taken from the mechanism. Gaussian answers together are one (Dong, Roth, Su 2019,
    arXiv:1905.02383, corollary 3.3), with no loss by Rényi divergences: less than what is claimed.
    """
    if math.isinf(mechanism.eps):
        return math.inf
    before, after = torch.eye(2, dtype=torch.float64)
    largest = 1.0  # the leading class may lose the vote
    together = float((before - after).norm())
    selections = mechanism.queries * (largest / mechanism.selection_stddev) ** 2
    winners = mechanism.answers * (together / mechanism.answer_stddev) ** 2
    stddev = 1 / math.sqrt(selections + winners)
    return _epsilon_at(mechanism.delta, mechanism.eps, lambda eps: gaussian_delta(eps, stddev))


def _epsilon_at(delta: float, claimed: float, delta_at: Callable[[float], float]) -> float:
    """Returns the eps at which `delta_at` falls to `delta`, searched from the claimed one.

    Infinity where the end of normal noise raises delta by more than `LOST_SHARE`.
    """
    if lost_delta(claimed) > LOST_SHARE * delta * (1 + 1e-9):
        return math.inf

    def excess(eps: float) -> float:
        return delta_at(eps) / delta - 1

    low, high = claimed / 2, claimed
    holds = excess(high) <= 0
    while excess(high) > 0:
        low, high = high, 2 * high
    while excess(low) < 0:
        low, high = low / 2, low
    found = float(brentq(excess, low, high, rtol=1e-7))
    # The search ends a little beside it, on either side.
    return min(found, claimed) if holds else found
