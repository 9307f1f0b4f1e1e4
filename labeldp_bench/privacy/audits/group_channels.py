"""Samplers that answer about groups of labels, as channels for an audit by draws.

A central mechanism treats groups alike and independently, so that one call with n groups of equal
content gives n draws. A local one (`LocalFull`) lets every example add noise to every group: there
every draw is a call of its own.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from labeldp_bench.mechanisms import (
    CubeMeans,
    ExponentialCubes,
    FullCubeMeans,
    GroupMechanism,
    LocalFull,
    NoisyClusters,
)
from labeldp_bench.privacy.audits.channel import Channel
from labeldp_bench.privacy.audits.laws import laplace_law
from labeldp_bench.privacy.audits.local_channels import BEYOND, local_channels
from labeldp_bench.privacy.vault import LabelVault, histogram_scale
from labeldp_bench.support.validate import InputError

K = 3
FEW = 4


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
                _means(mechanism)]  # fmt: skip
    if isinstance(mechanism, LocalFull):
        return local_channels(mechanism)
    raise InputError(f"no audit by draws is known for {type(mechanism).__name__}")


def copies(labels: list[Tensor], size: int) -> tuple[Tensor, Tensor]:
    """Returns labels and groups of `size` copies of a data set.

    Args:
        labels: of each group of the data set, (n_g,) each; a group may be empty.
        size: how many copies.
    """
    together = torch.cat(labels)
    number = torch.cat([torch.full((len(part),), g) for g, part in enumerate(labels)])
    offsets = len(labels) * torch.arange(size)
    return together.repeat(size), (number[None, :] + offsets[:, None]).flatten()


def _classes(mechanism: ExponentialCubes) -> Channel:
    """Two groups; the own example is in the first one or, if features are protected, in either."""
    others = [torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1])]
    groups = (0, 1) if mechanism.protects == "labels and features" else (0,)
    own = list(itertools.product(groups, range(K)))

    def content(number: int) -> list[Tensor]:
        group, label = own[number]
        return [torch.cat([part, torch.tensor([label] if g == group else [], dtype=torch.int64)])
                for g, part in enumerate(others)]  # fmt: skip

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        labels, which = copies(content(number), size)
        answers = mechanism.release_groups(labels, K, which, 2 * size, generator).reshape(size, 2)
        return answers[:, 0] * K + answers[:, 1]

    tables = []
    for number in range(len(own)):
        counts = torch.stack([torch.bincount(part, minlength=K) for part in content(number)])
        first, second = mechanism.log_probabilities(counts)
        tables.append((first[:, None] + second[None, :]).flatten())
    table = torch.stack(tables, 1)
    inputs = tuple(f"class {label} in group {group}" for group, label in own)
    return Channel("release_groups", inputs, draw, lambda outputs: table[outputs])


def _counts(mechanism: NoisyClusters) -> Channel:
    others = torch.tensor([0, 1])
    contents = [torch.cat([others, torch.tensor([label])]) for label in range(K)]
    means = torch.stack([torch.bincount(part, minlength=K) for part in contents]).double()

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        labels, which = copies([contents[number]], size)
        return mechanism.release_groups(labels, K, which, size, generator)

    inputs = tuple(f"class {label}" for label in range(K))
    return Channel("release_groups", inputs, draw,
                   lambda outputs: laplace_law(outputs, means, mechanism.scale))  # fmt: skip


def _means(mechanism: CubeMeans, bound: float = 1.0) -> Channel:
    """One group of three labels, two of them known; the own one may lie beyond the bound."""
    reach = mechanism.reach(bound)
    own = [reach * place for place in (-BEYOND, -1.0, 1.0, BEYOND)]
    others = torch.tensor([reach, -reach / 2], dtype=torch.float64)
    contents = [torch.cat([others, torch.tensor([value]).double()]) for value in own]
    means = torch.stack([part.clamp(-reach, reach).mean() for part in contents])[:, None]
    scale = float(mechanism.scales(torch.tensor([3]), bound)[0])

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        labels, which = copies([contents[number]], size)
        return mechanism.release_groups(labels, bound, which, size, generator)

    inputs = tuple(f"label {value:g}" for value in own)
    return Channel("release_groups", inputs, draw,
                   lambda outputs: laplace_law(outputs[:, None], means, scale))  # fmt: skip


def _moved_means(mechanism: FullCubeMeans, bound: float = 1.0) -> Channel:
    """Three groups, about as large as n_0, n_0 and the rest; the own example is in one of two.

    There a moved example changes both means by nearly as much as the noise allows for.
    """
    reach = mechanism.reach(bound)
    others = [torch.full((size,), value).double() for size, value in
              ((FEW, reach), (FEW, -reach), (4 * FEW - 1, 0.0))]  # fmt: skip
    places = (-BEYOND, -1.0, 1.0, BEYOND)
    own = list(itertools.product((0, 1), [reach * place for place in places]))

    def content(number: int) -> list[Tensor]:
        group, value = own[number]
        return [torch.cat([part, torch.tensor([value] if g == group else []).double()])
                for g, part in enumerate(others)]  # fmt: skip

    def mean(number: int) -> Tensor:
        parts = [part.clamp(-reach, reach) for part in content(number)]
        sizes = torch.tensor([len(part) for part in parts])
        return torch.stack([part.sum() for part in parts]) / mechanism.divisors(sizes)

    means = torch.stack([mean(number) for number in range(len(own))])
    sizes = torch.tensor([len(part) for part in content(0)])
    scale = float(mechanism.scales(sizes, bound)[0])

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        labels, which = copies(content(number), size)
        answers = mechanism.release_groups(labels, bound, which, 3 * size, generator)
        return answers.reshape(size, 3)

    inputs = tuple(f"label {value:g} in group {group}" for group, value in own)
    return Channel("release_groups", inputs, draw,
                   lambda outputs: laplace_law(outputs, means, scale), chunk=20_000)  # fmt: skip


def vault_histogram(labels: Tensor, num_classes: int, eps: float, seed: int) -> Tensor:
    """Returns noisy counts of all labels, float64 (K,), from a vault that holds them."""
    vault = LabelVault(labels, num_classes).open(eps, seed, data="audit")
    return vault.release_histogram(torch.arange(len(labels)), eps)


VAULT_HISTOGRAM = Histogram(vault_histogram)


def histogram_epsilon(eps: float, histogram: Histogram) -> float:
    """Returns the eps that the stated noise has; what one label moves is measured."""
    counts = torch.stack([torch.bincount(torch.tensor([label]), minlength=2) for label in (0, 1)])
    return float(counts.diff(dim=0).abs().sum()) / histogram.scale(eps)


def histogram_channel(eps: float, histogram: Histogram) -> Channel:
    """Returns the channel of a histogram.

    n copies of one label with two classes of its own each: 2 n classes in all.
    """
    means = torch.eye(2, dtype=torch.float64)

    def draw(number: int, size: int, generator: Generator) -> Tensor:
        labels, seed = (
            2 * torch.arange(size) + number,
            torch.randint(2**31, (), generator=generator),
        )
        return histogram.draw(labels, 2 * size, eps, int(seed)).reshape(size, 2)

    return Channel("release_histogram", ("class 0", "class 1"), draw,
                   lambda outputs: laplace_law(outputs, means, histogram.scale(eps)))  # fmt: skip
