"""Mechanisms for groups of labels as channels that an audit draws from."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from labeldp.audit.channels import (
    BEYOND,
    Channel,
    Mixed,
    local_channels,
    misfit,
    noise_misfit,
    of_one,
    own_stream,
)
from labeldp.audit.fit import GoodnessOfFit, laplace_law
from labeldp.mechanisms import (
    CubeMeans,
    ExponentialCubes,
    FullCubeMeans,
    GroupMechanism,
    LaplaceHistogram,
    LocalFull,
    NoisyClusters,
)
from labeldp.store import LabelStore
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


K = 3
FEW = 4
LEVELS = ((0, 1, 3), (10, 100, 1000))
"""Counts of three classes whose noise is looked at: of no label, of few and of many."""
COPIES = 2000
ONE = torch.tensor([1])


def histogram_scale(eps: float) -> float:
    """Returns the stated scale of the Laplace noise on each count."""
    return LaplaceHistogram(eps).scale


@dataclass(frozen=True)
class Histogram:
    """A noisy histogram: what it draws, and what it says of that.

    Attributes:
        draw: (labels, num_classes, eps, seed) -> noisy counts, float64 (K,).
        scale: eps -> the stated scale of the Laplace noise on each count.
    """

    draw: Callable[[Tensor, int, float, int], Tensor]
    scale: Callable[[float], float] = histogram_scale


def group_channels(mechanism: GroupMechanism) -> list[Channel]:
    """Returns the channels of a mechanism for groups: for classes, real labels, or both."""
    if isinstance(mechanism, ExponentialCubes):
        return [_classes(mechanism)]
    if isinstance(mechanism, NoisyClusters):
        return [_counts(mechanism)]
    if isinstance(mechanism, CubeMeans):
        return [_moved_means(mechanism) if isinstance(mechanism, FullCubeMeans) else
                _mean_of_three(mechanism)]  # fmt: skip
    if isinstance(mechanism, LocalFull):
        return local_channels(mechanism)
    raise InputError(f"no audit by draws is known for {type(mechanism).__name__}")


def _entries(answers: Tensor) -> Tensor:
    return answers.flatten(1)


def copies(
    mechanism: GroupMechanism,
    limit: float,
    contents: list[list[Tensor]],
    read: Callable[[Tensor], Tensor] = _entries,
) -> Mixed:
    """Returns how many copies of small data sets are drawn in one call.

    Args:
        mechanism: answers about groups.
        limit: K, or the bound of real labels.
        contents: of each input, the labels of each group of its data set, (n_g,); a group may be
            empty. All inputs have as many labels, and as many groups.
        read: answers of each copy, (n, G, ...) -> outputs, first axis n.
    """
    labels = torch.stack([torch.cat(groups) for groups in contents])
    sizes = torch.tensor([[len(part) for part in groups] for groups in contents])
    count = sizes.shape[1]
    members = torch.stack([torch.arange(count).repeat_interleave(each) for each in sizes])

    def mixed(numbers: Tensor, generator: Generator) -> Tensor:
        copy = count * torch.arange(len(numbers))
        groups = (members[numbers] + copy[:, None]).flatten()
        asked, total = labels[numbers].flatten(), count * len(numbers)
        answers = mechanism.release_groups(asked, limit, groups, total, generator)
        return read(answers.unflatten(0, (len(numbers), count)))

    return mixed


def _joined(others: list[Tensor], group: int, own: float) -> list[Tensor]:
    """Returns the labels of each group with the own one, which is in `group`."""
    return [torch.cat([part, torch.tensor([own] if g == group else []).to(part.dtype)])
            for g, part in enumerate(others)]  # fmt: skip


def _classes(mechanism: ExponentialCubes) -> Channel:
    """Two groups; the own example is in the first one or, if features are protected, in either."""
    others = [torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1])]
    groups = (0, 1) if mechanism.protects == "labels and features" else (0,)
    own = list(itertools.product(groups, range(K)))
    contents = [_joined(others, group, label) for group, label in own]
    tables = []
    for content in contents:
        counts = torch.stack([torch.bincount(part, minlength=K) for part in content])
        first, second = mechanism.log_probabilities(counts)
        tables.append((first[:, None] + second[None, :]).flatten())
    table = torch.stack(tables, 1)
    inputs = tuple(f"class {label} in group {group}" for group, label in own)
    mixed = copies(mechanism, K, contents, lambda answers: answers[:, 0] * K + answers[:, 1])
    return Channel(
        "release_groups", inputs, of_one(mixed), lambda outputs: table[outputs], mixed=mixed
    )


def _counts(mechanism: NoisyClusters) -> Channel:
    contents = [_joined([torch.tensor([0, 1])], 0, label) for label in range(K)]
    means = torch.stack([torch.bincount(part, minlength=K) for (part,) in contents]).double()
    inputs = tuple(f"class {label}" for label in range(K))
    mixed = copies(mechanism, K, contents)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Looks at counts of all sizes: none may be left out, cut off, or shown as it is."""
        size, found = min(max(100, draws), COPIES), []
        for counts in LEVELS:
            content = [torch.arange(K).repeat_interleave(torch.tensor(counts))]
            drawn = of_one(copies(mechanism, K, [content]))
            found.append(drawn(0, size, own_stream(generator, "counts")) - torch.tensor(counts))
        return noise_misfit(torch.cat(found, 1), mechanism.scale)

    return Channel("release_groups", inputs, of_one(mixed),
                   lambda outputs: laplace_law(outputs, means, mechanism.scale),
                   noise=noise, mixed=mixed)  # fmt: skip


def _mean_of_three(mechanism: CubeMeans, bound: float = 1.0) -> Channel:
    """One group of three labels, two of them known; the own one may lie beyond the bound."""
    reach = mechanism.reach(bound)
    own = [reach * place for place in (-BEYOND, -1.0, 1.0, BEYOND)]
    others = torch.tensor([reach, -reach / 2], dtype=torch.float64)
    contents = [_joined([others], 0, value) for value in own]
    means = torch.stack([part.clamp(-reach, reach).mean() for (part,) in contents])[:, None]
    scale = float(mechanism.scales(torch.tensor([3]), bound)[0])
    inputs = tuple(f"label {value:g}" for value in own)
    mixed = copies(mechanism, bound, contents)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Looks at a label alone in its group, beside a large one: noise is for its own size."""
        rest = torch.zeros(6 * FEW).double()
        alone = [[torch.tensor([end]).double(), rest] for end in (-reach, reach)]
        drawn = of_one(copies(mechanism, bound, alone, lambda answers: answers[:, :1]))
        ends, least = torch.tensor([[-reach], [reach]]).double(), mechanism.scales(ONE, bound)
        return misfit(drawn, lambda outputs: laplace_law(outputs, ends, float(least[0])), 2, draws,
                      own_stream(generator, "alone"))  # fmt: skip

    return Channel("release_groups", inputs, of_one(mixed),
                   lambda outputs: laplace_law(outputs, means, scale),
                   noise=noise, mixed=mixed)  # fmt: skip


def _moved_means(mechanism: FullCubeMeans, bound: float = 1.0) -> Channel:
    """Three groups, about as large as n_0, n_0 and the rest; the own example is in one of two.

    There a moved example changes both means by nearly as much as the noise allows for.
    """
    reach = mechanism.reach(bound)
    others = [torch.full((size,), value).double() for size, value in
              ((FEW, reach), (FEW, -reach), (4 * FEW - 1, 0.0))]  # fmt: skip
    places = (-BEYOND, -1.0, 1.0, BEYOND)
    own = list(itertools.product((0, 1), [reach * place for place in places]))
    contents = [_joined(others, group, value) for group, value in own]

    def mean(parts: list[Tensor]) -> Tensor:
        sums = torch.stack([part.clamp(-reach, reach).sum() for part in parts])
        return sums / mechanism.divisors(torch.tensor([len(part) for part in parts]))

    means = torch.stack([mean(content) for content in contents])
    sizes = torch.tensor([len(part) for part in contents[0]])
    scale = float(mechanism.scales(sizes, bound)[0])
    inputs = tuple(f"label {value:g} in group {group}" for group, value in own)
    mixed = copies(mechanism, bound, contents)

    def law(outputs: Tensor) -> Tensor:
        return laplace_law(outputs, means, scale)

    def noise(draws: int, generator: Generator) -> GoodnessOfFit | None:
        """Looks at groups of fewer than n_0: divided by their own size, a mean tells too much."""
        few = [torch.zeros(size).double() for size in (0, 0, 6 * FEW - 1)]
        contents = [_joined(few, group, value) for group, value in own]
        least = torch.stack([mean(content) for content in contents])
        drawn = of_one(copies(mechanism, bound, contents))
        return misfit(drawn, lambda outputs: laplace_law(outputs, least, scale), len(own), draws,
                      own_stream(generator, "few"))  # fmt: skip

    return Channel("release_groups", inputs, of_one(mixed), law, chunk=20_000, noise=noise,
                   mixed=mixed)  # fmt: skip


def store_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns noisy counts of all labels, float64 (K,), from a store that holds them."""
    store = LabelStore(labels, num_classes).open(eps, seed, data="audit")
    return store.release(LaplaceHistogram(eps), torch.arange(len(labels)))


STORE_HISTOGRAM = Histogram(store_histogram)


def histogram_epsilon(eps: float, histogram: Histogram) -> float:
    """Returns the eps that the stated noise has; what one label moves is measured."""
    counts = torch.stack([torch.bincount(torch.tensor([label]), minlength=2) for label in (0, 1)])
    return float(counts.diff(dim=0).abs().sum()) / histogram.scale(eps)


def histogram_channel(eps: float, histogram: Histogram) -> Channel:
    """Returns the channel of a histogram.

    n copies of one label with two classes of its own each: 2 n classes in all.
    """
    means = torch.eye(2, dtype=torch.float64)

    def mixed(numbers: Tensor, generator: Generator) -> Tensor:
        size = len(numbers)
        seed = int(torch.randint(2**31, (), generator=generator))
        noisy = histogram.draw(2 * torch.arange(size) + numbers, 2 * size, eps, seed)
        return noisy.reshape(size, 2)

    return Channel("release_histogram", ("class 0", "class 1"), of_one(mixed),
                   lambda outputs: laplace_law(outputs, means, histogram.scale(eps)),
                   mixed=mixed)  # fmt: skip
