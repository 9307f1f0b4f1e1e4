"""What every table is: rows with public columns and one label, split by the run's seed."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from labeldp.io.columns import encoded
from labeldp.store.vault import LabelVault
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_integer, check_number
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import hash_arrays


@dataclass(frozen=True)
class Rows:
    """The rows of a table before they are split.

    Attributes:
        name: of the data set.
        columns: the public columns, numbers or categories; missing cells allowed.
        labels: int64 (N,), in [0, K).
        num_classes: K.
        units: who each row belongs to, (N,), any values that compare equal; None: each row is
            somebody else's.
    """

    name: str
    columns: pd.DataFrame
    labels: NDArray[np.int64]
    num_classes: int
    units: NDArray[np.generic] | None = None


@dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """A table whose rows are split into training and test rows by the run's seed.

    The rows of one unit (a person) stay on one side. Columns are encoded by what the training
    rows say (`columns.encoded`); labels are not looked at.

    Args:
        test_share: of the units, in (0, 1).
        limit_train: None for all training rows, or how many at most.
        limit_test: the same for test rows.
        rows_per_unit: how many rows of one unit are kept at most, chosen at random. Each of these
            labels is released with eps / rows_per_unit, so that a unit spends at most eps.
    """

    test_share: float = 0.25
    limit_train: int | None = None
    limit_test: int | None = None
    rows_per_unit: int = 1

    trials: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_number("dataset.test_share", self.test_share, above=0, below=1)
        check_integer("dataset.rows_per_unit", self.rows_per_unit, low=1)
        for key, limit in (("limit_train", self.limit_train), ("limit_test", self.limit_test)):
            if limit is not None:
                check_integer(f"dataset.{key}", limit, low=1)

    @abstractmethod
    def read(self, data_dir: Path) -> Rows:
        """Returns all rows, in the order of the source.

        Raises:
            InputError: the file or package is missing, damaged or does not fit.
        """

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns the encoded rows, float32 (N, d), split by `seed`."""
        rows = self.read(data_dir)
        train, test = self._split(rows, seed)
        features = encoded(rows.columns, train, test)
        test_labels = rows.labels[test]
        return DataBundle(
            name=rows.name,
            train_features=torch.from_numpy(features[0]),
            vault=LabelVault(torch.from_numpy(rows.labels[train]), rows.num_classes),
            test_features=torch.from_numpy(features[1]),
            test_labels=torch.from_numpy(test_labels),
            num_classes=rows.num_classes,
            sha256=hash_arrays(*features, test_labels),
            labels_per_unit=1 if rows.units is None else self.rows_per_unit,
            scores_probabilities=True,
        )

    def _split(self, rows: Rows, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the positions of training and test rows, each in the table's order."""
        generator = seeding.generator(seed, "data")
        count = len(rows.labels)
        shuffled = torch.randperm(count, generator=generator).numpy()
        units = np.arange(count) if rows.units is None else pd.factorize(rows.units)[0]
        units = units[shuffled]
        if rows.units is not None:  # the first rows of each unit in the random order
            kept = pd.Series(units).groupby(units).cumcount().to_numpy() < self.rows_per_unit
            shuffled, units = shuffled[kept], units[kept]
        names = pd.unique(units)  # in the random order of their first rows
        tested = min(max(1, round(self.test_share * len(names))), len(names) - 1)
        if len(names) < 2:
            raise InputError(f"{rows.name}: a split needs two rows or more, got {len(names)}")
        is_test = np.isin(units, names[:tested])
        parts = (shuffled[~is_test][: self.limit_train], shuffled[is_test][: self.limit_test])
        return np.sort(parts[0]), np.sort(parts[1])
