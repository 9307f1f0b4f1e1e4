"""Exact audits of mechanisms for groups of labels, over neighbouring small data sets."""

import itertools
import math

import torch
from torch import Tensor

from labeldp.mechanisms.cube_means import CubeMeans, FullCubeMeans
from labeldp.mechanisms.group_classes import ExponentialCubes, NoisyClusters
from labeldp.mechanisms.groups import GroupMechanism
from labeldp.mechanisms.local_full import LocalFull
from labeldp.support.validate import InputError

MOST_LABELS = 40


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
        counts = torch.eye(2, dtype=torch.float64)  # of one group, before and after
        return float((counts[0] - counts[1]).abs().sum()) / mechanism.scale
    if isinstance(mechanism, CubeMeans):
        return _means(mechanism, bound)
    if isinstance(mechanism, LocalFull):
        return _local_full(mechanism)
    raise InputError(f"no exact audit is known for {type(mechanism).__name__}")


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
    classes = float((indicators[0] - indicators[1]).abs().sum()) / mechanism.class_scale
    worst = classes
    ends = itertools.product(range(2), (-clip, clip))
    for (cube, label), (other, new) in itertools.permutations(ends, 2):
        sizes = float((indicators[cube] - indicators[other]).abs().sum())
        values = float((label * indicators[cube] - new * indicators[other]).abs().sum())
        worst = max(worst, sizes / mechanism.size_scale + values / mechanism.value_scale(clip))
    return worst
