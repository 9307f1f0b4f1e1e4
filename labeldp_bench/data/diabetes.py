"""A real regression set: how far diabetes went within a year, from ten public measurements."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from labeldp.store.vault import LabelVault
from labeldp.support import seeding
from labeldp.support.validate import check_integer, check_number
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import hash_arrays


@dataclass(frozen=True)
class Diabetes:
    """442 patients, ten features, a score of the disease's progression as label.

    Features are public; each has mean 0 and variance 1 over all patients. Training labels are
    clipped to [low, high] and mapped onto [-1, 1]. The range is public, so it must be known before
    anybody looks at these labels. The documented range is the smallest and largest label of this
    very set; it is public only because others published it.

    All trials and seeds have the same split, as with images. A trial draws fresh noise for the same
    labels, so that a record's mean over trials costs trials * eps, as its `eps_spent` says.

    Source: Efron, Hastie, Johnstone, Tibshirani (2004), "Least angle regression", as scikit-learn
    packs it; nothing is downloaded.

    Args:
        low, high: range of the training labels, in their own units; public.
        n_test: patients that are tested on.
        trials: independent repetitions of the noise inside one run.
        split_seed: which patients they are.
    """

    low: float
    high: float
    n_test: int
    trials: int
    split_seed: int = 0

    name = "diabetes"

    def __post_init__(self) -> None:
        check_number("dataset.high", self.high, above=check_number("dataset.low", self.low))
        check_integer("dataset.n_test", self.n_test, low=2, high=440)
        check_integer("dataset.trials", self.trials, low=1)
        check_integer("dataset.split_seed", self.split_seed, low=0)

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns the patients, float32 (N, 10), in the same split whatever `seed` is."""
        features, labels = load_patients()
        generator = seeding.generator(self.split_seed, "data")
        order = torch.randperm(len(labels), generator=generator).numpy()
        test, train = np.sort(order[: self.n_test]), np.sort(order[self.n_test :])
        middle, unit = (self.high + self.low) / 2, (self.high - self.low) / 2
        scaled = torch.from_numpy((labels - middle) / unit)
        return DataBundle(
            name=self.name,
            train_features=torch.from_numpy(features[train]),
            vault=LabelVault(scaled[train].clamp(-1, 1), 0, bound=1.0),
            test_features=torch.from_numpy(features[test]),
            test_labels=scaled[test],
            num_classes=0,
            sha256=hash_arrays(features[train], features[test], labels[test]),
            label_unit=unit,
        )


@cache
def load_patients() -> tuple[np.ndarray, np.ndarray]:
    """Returns standardised features, float32 (442, 10), and labels, float64 (442,)."""
    from sklearn.datasets import load_diabetes  # a second, which other data need not wait for

    features, labels = load_diabetes(return_X_y=True, scaled=False)
    standardised = (features - features.mean(0)) / features.std(0)
    return standardised.astype(np.float32), labels.astype(np.float64)
