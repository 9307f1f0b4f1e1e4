"""K Gaussians on the unit circle, whose Bayes accuracy is known."""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from scipy.special import log_ndtr
from torch import Generator, Tensor

from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_integer, check_number
from labeldp_bench.data.bundle import DataBundle

SMALLEST, LARGEST = 1e-6, 1e6
"""Standard deviations beyond which points are equal, or means are, in float32."""


@dataclass(frozen=True)
class CircleGaussians:
    """Draws points around `num_classes` means that are equally spaced on the unit circle.

    Source: Zhao et al. (2025), section 5.1. The paper leaves open how labels are drawn (uniformly:
    ours) and the number of test points.

    Args:
        num_classes: number of classes K, >= 2.
        sigma: standard deviation per coordinate, > 0, or the text "2/K".
        n_train, n_test: points per trial.
        trials: independent repetitions (data, noise and ties) inside one run.
    """

    num_classes: int
    sigma: float | str
    n_train: int
    n_test: int
    trials: int

    name = "circle"

    def __post_init__(self) -> None:
        for key in ("n_train", "n_test", "trials"):
            check_integer(f"dataset.{key}", getattr(self, key), low=1)
        check_integer("dataset.num_classes", self.num_classes, low=2)
        if not isinstance(self.sigma, str):
            check_number("dataset.sigma", self.sigma, low=SMALLEST, high=LARGEST)
        elif self.sigma.replace(" ", "").upper() != "2/K":
            raise InputError(
                f"dataset.sigma must be a number > 0 or the text 2/K, got {self.sigma!r}"
            )

    @property
    def stddev(self) -> float:
        """The standard deviation per coordinate, as a number."""
        return 2 / self.num_classes if isinstance(self.sigma, str) else float(self.sigma)

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns fresh points: float32 (N, 2); reads no file."""
        generator = seeding.generator(seed, "data")
        train_points, train_labels = self._sample(self.n_train, generator)
        test_points, test_labels = self._sample(self.n_test, generator)
        # In the order of the angle: a search finds in the cache what the point before needed.
        around = torch.atan2(test_points[:, 1], test_points[:, 0]).argsort()
        test_points, test_labels = test_points[around], test_labels[around]
        return DataBundle(
            name=self.name,
            train_features=train_points,
            store=LabelStore(train_labels, self.num_classes),
            test_features=test_points,
            test_labels=test_labels,
            num_classes=self.num_classes,
            fresh_labels=True,
            bayes_accuracy=bayes_accuracy(self.num_classes, self.stddev),
        )

    def _sample(self, size: int, generator: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(self.num_classes, (size,), generator=generator)
        angles = labels * (2 * math.pi / self.num_classes)
        means = torch.stack([angles.cos(), angles.sin()], dim=1)
        return means + self.stddev * torch.randn(size, 2, generator=generator), labels


@cache
def bayes_accuracy(num_classes: int, stddev: float) -> float:
    """Returns the accuracy of the best classifier on the circle, by quadrature to 1e-10.

    The best class is the nearest mean, so this is the mass of one Gaussian inside its sector
    |angle| <= pi / K. The radial part of the integral has a closed form. Gauss and Legendre's rule
    is used on pieces that grow with the distance from the peak at 0, which has width `stddev`.
    """
    edge = math.pi / num_classes
    pieces = max(0, math.ceil(math.log(edge / stddev, 4)))
    ends = np.array([0.0, *(stddev * 4.0**piece for piece in range(pieces)), edge])
    nodes, weights = np.polynomial.legendre.leggauss(64)
    half = np.diff(ends)[:, None] / 2
    angles = ends[:-1, None] + half * (1 + nodes)
    along = np.cos(angles) / stddev
    across = np.sin(angles) ** 2 / (2 * stddev**2)
    # sqrt(2 pi) a exp(-across) Phi(a), with Phi in logs: a is negative beyond 90 degrees.
    radial = math.sqrt(2 * math.pi) * along * np.exp(log_ndtr(along) - across)
    density = (math.exp(-1 / (2 * stddev**2)) + radial) / (2 * math.pi)
    return float(2 * np.sum(half * weights * density))
