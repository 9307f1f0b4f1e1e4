"""Data sets whose images can be had without their training labels."""

from abc import ABC, abstractmethod
from pathlib import Path

from labeldp_bench.data.bundle import DataBundle, Dataset
from labeldp_bench.support.validate import InputError


class Unlabelled(ABC):
    """A data set that is read from files, training labels apart."""

    @abstractmethod
    def draw_without_labels(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns what `draw` returns, with a vault whose labels are absent; none are read."""


def unlabelled(dataset: Dataset) -> Unlabelled:
    """Returns the data set if it can do without training labels.

    Raises:
        InputError: it cannot.
    """
    if not isinstance(dataset, Unlabelled):
        raise InputError(
            f"releases= is for images from a file: the labels of {type(dataset).__name__} are made "
            "up, or come with its features"
        )
    return dataset
