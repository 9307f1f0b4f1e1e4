"""Rings around the origin, one for each class."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp_bench.data.bundle import DataBundle


@dataclass(frozen=True)
class Rings:
    """Draws points on rings of radius 1, 2, ..., K, with standard deviation `width`.

    Source: ours, an example.
    """

    num_classes: int
    width: float
    n_train: int
    n_test: int
    trials: int

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns fresh points, float32 (N, 2); reads no file."""
        generator = seeding.generator(seed, "data")
        train_points, train_labels = self._sample(self.n_train, generator)
        test_points, test_labels = self._sample(self.n_test, generator)
        return DataBundle(
            name="rings",
            train_features=train_points,
            store=LabelStore(train_labels, self.num_classes),
            test_features=test_points,
            test_labels=test_labels,
            num_classes=self.num_classes,
            fresh_labels=True,  # each trial draws new labels, so their eps does not add up
        )

    def _sample(self, size: int, generator: Generator) -> tuple[Tensor, Tensor]:
        labels = torch.randint(self.num_classes, (size,), generator=generator)
        radii = labels + 1 + self.width * torch.randn(size, generator=generator)
        angles = 2 * math.pi * torch.rand(size, generator=generator)
        return radii[:, None] * torch.stack([angles.cos(), angles.sin()], dim=1), labels
