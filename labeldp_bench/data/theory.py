"""Data of the theory runs: smooth functions on [0, 1], and patients."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_choice, check_integer, check_number
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import hash_arrays

LEVELS = 14
POINTS = 2**LEVELS
TARGETS = ("weierstrass", "bumps", "smooth")


def rough_function(target: str, smoothness: float, seed: int) -> Tensor:
    """Returns a function's values, float64 (2^14 + 1,), scaled to a largest size of 1.

    `weierstrass`: a sum of cosines with frequency 2^j, height 2^(-j smoothness) and random phase;
    `bumps`: at every dyadic scale the lower bound's bumps, tents of height 2^(-j smoothness), each
    with a random sign; `smooth`: two periods of a sine, which has every smoothness up to 1.

    Args:
        target: one of `TARGETS`.
        smoothness: Hölder exponent in (0, 1].
        seed: of phases and signs; the same function for the same seed.
    """
    generator = seeding.generator(seed, "target")
    x = torch.arange(POINTS + 1, dtype=torch.float64) / POINTS
    if target == "smooth":
        return torch.sin(4 * math.pi * x)
    total = torch.zeros_like(x)
    for level in range(1, LEVELS):
        height = 2.0 ** (-level * smoothness)
        if target == "weierstrass":
            phase = 2 * math.pi * float(torch.rand((), generator=generator))
            total += height * torch.cos(2 * math.pi * 2.0**level * x + phase)
        else:
            signs = 2.0 * torch.randint(2, (2**level + 1,), generator=generator) - 1
            position = x * 2**level
            tent = 1 - (2 * (position - position.floor()) - 1).abs()
            total += height * signs[position.long()] * tent
    return total / total.abs().max()


def values_at(function: Tensor, points: Tensor) -> Tensor:
    """Returns the values of a tabulated function, float64, at points in [0, 1], (N,)."""
    grid = np.linspace(0, 1, len(function))
    return torch.from_numpy(np.interp(points.numpy(), grid, function.numpy()))


AMPLITUDE = 0.8
"""The largest |eta_0 - eta_1| relative to the two contested classes' mass."""
CONTESTED = 0.8
"""What the two contested classes have together where there are others."""
NOISES = ("uniform", "pareto", "student")
TAIL_MARGIN = 0.05
SIDE = {1: 2**14, 2: 127, 3: 41}
"""Test points along each axis: the midpoints of an even grid, on which risks are averaged.

Primes in several dimensions: cosines of frequency 2^j beyond a side of 2^m are constant on it, and
where cubes divide the side, points lie at their centres.
"""


@dataclass(frozen=True)
class HolderData:
    """Uniform features on [0, 1]^d; in one dimension in increasing order, which is public.

    Args:
        dimension: d, 1 to 3. In several dimensions the target is a mean of one function of each.
        beta: Hölder exponent of the target, in (0, 1].
        target: `weierstrass`, `bumps` or `smooth`.
        n_train: examples per trial.
        trials: independent repetitions (features, labels, noise) inside one run.
        target_seed: which function; the same one in all trials.
    """

    dimension: int
    beta: float
    target: str
    n_train: int
    trials: int
    target_seed: int = 0

    def __post_init__(self) -> None:
        check_integer("dataset.n_train", self.n_train, low=1)
        check_integer("dataset.trials", self.trials, low=1)
        check_integer("dataset.dimension", self.dimension, low=1, high=max(SIDE))
        check_integer("dataset.target_seed", self.target_seed, low=0)
        check_number("dataset.beta", self.beta, above=0, high=1)
        check_choice("dataset.target", self.target, TARGETS)

    @property
    def inner_smoothness(self) -> float:
        """Hölder exponent of the tabulated function."""
        return self.beta

    @cached_property
    def _functions(self) -> list[Tensor]:
        seeds = range(self.target_seed, self.target_seed + self.dimension)
        return [rough_function(self.target, self.inner_smoothness, seed) for seed in seeds]

    def signal(self, points: Tensor) -> Tensor:
        """Returns the target in [-1, 1], float64 (N,), at points (N, d)."""
        parts = [values_at(f, points[:, axis]) for axis, f in enumerate(self._functions)]
        return torch.stack(parts).mean(0) if len(parts) > 1 else parts[0]

    @cached_property
    def test_points(self) -> Tensor:
        """The points on which risks are averaged, float64 (M, d)."""
        side = SIDE[self.dimension]
        axis = (torch.arange(side, dtype=torch.float64) + 0.5) / side
        return torch.cartesian_prod(*[axis] * self.dimension).reshape(-1, self.dimension)

    def features(self, generator: Generator) -> Tensor:
        """Returns uniform features, float64 (n_train, d)."""
        if self.dimension > 1:
            shape = (self.n_train, self.dimension)
            return torch.rand(shape, generator=generator, dtype=torch.float64)
        # Normalised sums of exponentials are uniform order statistics: no sorting.
        uniform = torch.rand(self.n_train + 1, generator=generator, dtype=torch.float64)
        sums = (-torch.log1p(-uniform)).cumsum(0)
        return (sums[:-1] / sums[-1])[:, None]


@dataclass(frozen=True, kw_only=True)
class HolderClassification(HolderData):
    """Classes with a Hölder continuous distribution and a margin.

    Two contested classes 0 and 1 with eta_0 - eta_1 = c sign(w) |w|^(1/gamma); the others share
    what is left evenly. P(0 < eta* - eta_s <= t) grows as t^gamma, as w passes 0 with a density.

    Source: assumption 1 of Zhao et al. (2025), theoretical_limits; construction ours.

    Args:
        num_classes: number of classes K, >= 2.
        gamma: margin exponent, > 0; gamma * beta <= d, else no such distribution exists.
    """

    num_classes: int
    gamma: float

    name = "holder_classification"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("dataset.num_classes", self.num_classes, low=2)
        check_number("dataset.gamma", self.gamma, above=0)
        if self.gamma * self.beta > self.dimension:
            raise InputError(
                f"dataset.gamma * dataset.beta must be <= dataset.dimension = {self.dimension}, "
                f"got {self.gamma * self.beta:g}: so wide a margin needs a steeper target"
            )
        if self.inner_smoothness > 1:
            raise InputError(
                "dataset.gamma * dataset.beta must be <= 1, as the targets here are no smoother, "
                f"got {self.gamma * self.beta:g}"
            )

    @property
    def inner_smoothness(self) -> float:
        """Smoothness of w: its root |w|^(1/gamma) is rougher by the factor gamma > 1."""
        return self.beta * max(1.0, self.gamma)

    @property
    def contested(self) -> float:
        """What classes 0 and 1 have together."""
        return 1.0 if self.num_classes == 2 else CONTESTED

    def probabilities(self, points: Tensor) -> Tensor:
        """Returns the class probabilities, float64 (N, K), at points (N, d)."""
        first = self._first(points)
        rest = (1 - self.contested) / max(self.num_classes - 2, 1)
        others = torch.full((len(points), self.num_classes - 2), rest, dtype=torch.float64)
        return torch.cat([torch.stack([first, self.contested - first], 1), others], 1)

    def _first(self, points: Tensor) -> Tensor:
        """Returns the probability of class 0, float64 (N,)."""
        signal = self.signal(points)
        if self.gamma != 1:
            signal = signal.sign() * signal.abs() ** (1 / self.gamma)
        return self.contested * (1 + AMPLITUDE * signal) / 2

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns fresh examples; reads no file."""
        generator = seeding.generator(seed, "data")
        features = self.features(generator)
        uniform = torch.rand(self.n_train, generator=generator, dtype=torch.float64)
        labels = (uniform >= self._first(features)).long()
        if self.num_classes > 2:
            beyond = (uniform - CONTESTED) / (1 - CONTESTED) * (self.num_classes - 2)
            others = 2 + beyond.long().clamp(0, self.num_classes - 3)
            labels = torch.where(uniform >= CONTESTED, others, labels)
        truth = self.probabilities(self.test_points)
        return DataBundle(
            name=self.name,
            train_features=features,
            store=LabelStore(labels, self.num_classes),
            test_features=self.test_points,
            test_labels=truth.argmax(1),
            num_classes=self.num_classes,
            truth=truth,
            fresh_labels=True,
        )


@dataclass(frozen=True, kw_only=True)
class HolderRegression(HolderData):
    """Real labels: a Hölder continuous regression function plus noise.

    `uniform`: target in [-.75, .75], noise in [-.25, .25], so |Y| <= 1. `pareto`: target in
    [-1, 1], one-sided Pareto noise with tail index p + .05, centred; its p-th moment is finite and
    no higher one beyond the index is. `student`: Student's t with as many degrees of freedom, a
    contrast, as symmetric noise cancels the bias of clipping.

    Source: assumptions 1 to 3 of Zhao et al. (2025), theoretical_limits; construction ours.

    Args:
        noise: `uniform`, `pareto` or `student`.
        moment: p >= 2, of the heavy-tailed noises.
        spread: factor of the heavy-tailed noises, > 0.
    """

    noise: str
    moment: float = 2.0
    spread: float = 0.5

    name = "holder_regression"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("dataset.noise", self.noise, NOISES)
        check_number("dataset.moment", self.moment, low=2)
        check_number("dataset.spread", self.spread, above=0)

    def mean(self, points: Tensor) -> Tensor:
        """Returns the regression function, float64 (N,), at points (N, d)."""
        return self.signal(points) * (0.75 if self.noise == "uniform" else 1.0)

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns fresh examples; reads no file."""
        generator = seeding.generator(seed, "data")
        features = self.features(generator)
        labels = self.mean(features) + self._noise(generator)
        truth = self.mean(self.test_points)
        return DataBundle(
            name=self.name,
            train_features=features,
            store=LabelStore(labels, 0, bound=1.0 if self.noise == "uniform" else math.inf),
            test_features=self.test_points,
            test_labels=truth,
            num_classes=0,
            truth=truth,
            fresh_labels=True,
        )

    def _noise(self, generator: Generator) -> Tensor:
        uniform = torch.rand(self.n_train, generator=generator, dtype=torch.float64)
        if self.noise == "uniform":
            return uniform.mul_(0.5).sub_(0.25)
        index = self.moment + TAIL_MARGIN
        if self.noise == "pareto":
            pareto = (1 - uniform) ** (-1 / index)
            return self.spread * (pareto - index / (index - 1))
        # Bailey (1994): one uniform and one angle give a Student variable without a rejection.
        angle = torch.rand(self.n_train, generator=generator, dtype=torch.float64)
        radius = (index * ((1 - uniform) ** (-2 / index) - 1)).sqrt()
        return self.spread * radius * torch.cos(2 * math.pi * angle)


@dataclass(frozen=True)
class Diabetes:
    """442 patients, ten features, a score of the disease's progression as label, in one split.

    Features are public; each has mean 0 and variance 1 over all rows. Training labels are clipped
    to [low, high] and mapped onto [-1, 1]. The range is public, so it must be known before anybody
    looks at these labels. The documented one is the smallest and largest label of this very set;
    it is public only because others published it.

    All trials and seeds have the same split, as with images. A trial draws fresh noise for the same
    labels, so that a record's mean over trials costs trials * eps, as its `eps_spent` says.

    Source: Efron, Hastie, Johnstone, Tibshirani (2004), "Least angle regression", as scikit-learn
    packs it; nothing is downloaded.

    Args:
        low, high: range of the training labels, in their own units; public.
        n_test: rows that are tested on.
        trials: independent repetitions of the noise inside one run.
        split_seed: which rows they are.
    """

    low: float
    high: float
    n_test: int
    trials: int
    split_seed: int = 0

    name: ClassVar[str] = "diabetes"
    num_rows: ClassVar[int] = 442

    def __post_init__(self) -> None:
        check_number("dataset.high", self.high, above=check_number("dataset.low", self.low))
        check_integer("dataset.n_test", self.n_test, low=2, high=self.num_rows - 2)
        check_integer("dataset.trials", self.trials, low=1)
        check_integer("dataset.split_seed", self.split_seed, low=0)

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns features, float64 (N, d), and labels in their own units, float64 (N,)."""
        from sklearn.datasets import load_diabetes  # a second, which other data need not wait for

        features, labels = load_diabetes(return_X_y=True, scaled=False)
        return features, labels.astype(np.float64)

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns the rows, float32 (N, d), in the same split whatever `seed` is."""
        raw, labels = self.read()
        features = ((raw - raw.mean(0)) / raw.std(0)).astype(np.float32)
        generator = seeding.generator(self.split_seed, "data")
        order = torch.randperm(len(labels), generator=generator).numpy()
        test, train = np.sort(order[: self.n_test]), np.sort(order[self.n_test :])
        middle, unit = (self.high + self.low) / 2, (self.high - self.low) / 2
        scaled = torch.from_numpy((labels - middle) / unit)
        return DataBundle(
            name=self.name,
            train_features=torch.from_numpy(features[train]),
            store=LabelStore(scaled[train].clamp(-1, 1), 0, bound=1.0),
            test_features=torch.from_numpy(features[test]),
            test_labels=scaled[test],
            num_classes=0,
            sha256=hash_arrays(features[train], features[test], labels[test]),
            label_unit=unit,
        )
