"""Images from one .npz file per data set: an official one, or a user's own."""

import hashlib
import re
import zipfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from torch import Tensor

from labeldp.store.vault import LabelVault
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_integer
from labeldp_bench.data import official
from labeldp_bench.data.bundle import DataBundle, Dataset
from labeldp_bench.data.labels import as_labels, check_label_range

MAX_CHANNELS = 4


class Split(NamedTuple):
    """Images uint8 (N, H, W, C) and their labels int64 (N,)."""

    images: np.ndarray
    labels: np.ndarray

    def take(self, indices: np.ndarray) -> "Split":
        """Returns the split at `indices`, int64 (n,)."""
        return Split(self.images[indices], self.labels[indices])

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Returns images and labels as tensors over the same memory."""
        return torch.from_numpy(self.images), torch.from_numpy(self.labels)


@dataclass(frozen=True)
class ImageData:
    """Reads `<data_dir>/<name>.npz`; an official data set that is absent is fetched first.

    Args:
        name: of the data set: the file's name without `.npz`.
        num_classes: K >= 2; every label of the file is below it.
        limit_train: None for all training images, or how many: a random subset, drawn from the
            data seed and kept in the file's order. The same seed gives the same subset, and a
            smaller one is part of a larger one.
        limit_test: the same for the test images, from a stream of its own.
    """

    name: str
    num_classes: int
    limit_train: int | None = None
    limit_test: int | None = None

    trials: ClassVar[int] = 1

    def __post_init__(self) -> None:
        # The name becomes part of paths: of the file that is read and of the run's folder.
        plain = isinstance(self.name, str) and re.fullmatch(r"\w[\w.-]*", self.name)
        if not plain or self.name.endswith(".npz"):
            raise InputError(
                "dataset.name must be a file name without folder and without .npz, "
                f"got {self.name!r} (data_dir= names the folder)"
            )
        check_integer("dataset.num_classes", self.num_classes, low=2)
        for key, limit in (("limit_train", self.limit_train), ("limit_test", self.limit_test)):
            if limit is not None:
                check_integer(f"dataset.{key}", limit, low=1)

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns the images, uint8 NHWC, with the training labels behind the wall.

        Args:
            data_dir: folder of the .npz files; `~` is understood.
            seed: decides the subsets of `limit_train` and `limit_test`, nothing else.

        Raises:
            InputError: the file is absent and cannot be fetched, or it is damaged or wrongly
                shaped, or a limit exceeds what it holds.
        """
        train, test = load_images(data_dir, self.name, self.num_classes)
        return replace(self._bundle(train, test, seed), written=written_at(data_dir, self.name))

    def draw_without_labels(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns what `draw` returns, with a vault whose labels are absent; none are read."""
        train, test = load_images(data_dir, self.name, self.num_classes, train_labels=False)
        bundle = self._bundle(train, test, seed)
        zeros = torch.zeros(len(bundle.train_features), dtype=torch.int64)
        return replace(bundle, vault=LabelVault(zeros, self.num_classes, absent=True))

    def _bundle(self, train: Split, test: Split, seed: int) -> DataBundle:
        train = self._limited(train, "limit_train", self.limit_train, seed)
        test = self._limited(test, "limit_test", self.limit_test, seed)
        train_images, train_labels = train.tensors()
        test_images, test_labels = test.tensors()
        return DataBundle(
            name=self.name,
            train_features=train_images,
            vault=LabelVault(train_labels, self.num_classes),
            test_features=test_images,
            test_labels=test_labels,
            num_classes=self.num_classes,
            sha256=hash_arrays(train.images, test.images, test.labels),
        )

    def _limited(self, split: Split, key: str, limit: int | None, seed: int) -> Split:
        available = len(split.labels)
        if limit is None:
            return split
        if limit > available:
            raise InputError(
                f"dataset.{key} must be at most {available}, all that {self.name} has, got {limit} "
                f"(dataset.{key}=null takes all; give it if a budget set the number)"
            )
        shuffled = torch.randperm(available, generator=seeding.generator(seed, "data", key))
        return split.take(shuffled[:limit].sort().values.numpy())


def unlabelled(dataset: Dataset) -> ImageData:
    """Returns the data set if it can do without training labels.

    Raises:
        InputError: it cannot.
    """
    if not isinstance(dataset, ImageData):
        raise InputError(
            f"releases= is for images from a file: the labels of {type(dataset).__name__} are made "
            "up, or come with its features"
        )
    return dataset


def hash_arrays(*arrays: np.ndarray) -> str:
    """Returns the SHA-256 of the arrays' types, shapes and values, as hexadecimal text."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def file_of(data_dir: Path, name: str) -> Path:
    """Returns where the data set `name` lies; `~` is understood."""
    return data_dir.expanduser() / f"{name}.npz"


def written_at(data_dir: Path, name: str) -> str:
    """Returns when the file of a data set was last written, UTC: '2026-11-23T07:41:02.000123'."""
    seconds = file_of(data_dir, name).stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def count_examples(path: Path) -> int | None:
    """Returns the number of training examples of a file; None if it cannot be told.

    Reads the head of an array, no data.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open("y_train.npy") as file:
            old = read_magic(file) == (1, 0)
            read = read_array_header_1_0 if old else read_array_header_2_0
            return int(read(file)[0][0])
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile):
        return None  # whoever reads the whole file says what is wrong with it


def load_images(
    data_dir: Path, name: str, num_classes: int, *, train_labels: bool = True
) -> tuple[Split, Split]:
    """Returns training and test split of `<data_dir>/<name>.npz`, fetched first if need be.

    Without `train_labels` zeros stand in their place, and `y_train` is not read.

    Raises:
        InputError: one line that names file, array, what is expected and what was found.
    """
    path = file_of(data_dir, name)
    if not path.exists():
        official.fetch(name, path)
    train, test = read_npz(path, train_labels=train_labels)
    check_label_range(path.name, train.labels, test.labels, num_classes)
    return train, test


def read_npz(path: Path, *, train_labels: bool = True) -> tuple[Split, Split]:
    """Returns training and test split of a file whose number of classes is not known.

    Raises:
        InputError: see `load_images`.
    """
    train, test = _read_split(path, "train", train_labels), _read_split(path, "test")
    if train.images.shape[1:] != test.images.shape[1:]:
        raise InputError(
            f"{path.name}: images of x_test must have the shape of x_train's, "
            f"{train.images.shape[1:]}, got {test.images.shape[1:]}"
        )
    return train, test


def _read_split(path: Path, part: str, labelled: bool = True) -> Split:
    images = _read_array(path, f"x_{part}")
    labels = _read_array(path, f"y_{part}") if labelled else np.zeros(len(images), np.int64)
    if images.ndim == 3:
        images = images[..., None]
    channels_last = images.ndim == 4 and 1 <= images.shape[-1] <= MAX_CHANNELS
    if images.dtype != np.uint8 or not channels_last or not images.size:
        raise InputError(
            f"{path.name}: x_{part} must be uint8 (N, H, W) or (N, H, W, C) with C at most "
            f"{MAX_CHANNELS} and no axis of length 0, got {images.dtype} of shape {images.shape}"
            + " (scale floats to 0..255)"
            * (images.dtype.kind == "f")
        )
    labels = as_labels(path.name, f"y_{part}", labels)
    if len(images) != len(labels):
        raise InputError(
            f"{path.name}: x_{part} and y_{part} must have the same length, "
            f"got {len(images)} images and {len(labels)} labels"
        )
    return Split(np.ascontiguousarray(images), np.ascontiguousarray(labels))


def _read_array(path: Path, key: str) -> np.ndarray:
    try:
        # numpy would read other formats too, and its message about them would mislead.
        if path.is_file() and not zipfile.is_zipfile(path):
            raise InputError(
                f"{path.name} is not a zip archive, or is cut short (write it with numpy.savez, "
                "or delete it to fetch an official data set again)"
            )
        with np.load(path, allow_pickle=False) as archive:
            if key not in archive.files:
                raise InputError(
                    f"{path.name}: array {key} is missing; it must hold x_train, y_train, x_test "
                    f"and y_test, got {', '.join(archive.files) or 'nothing'}"
                )
            return archive[key]
    except InputError:
        raise
    except Exception as error:  # a torn archive may raise anything
        raise InputError(
            f"{path.name}: array {key} cannot be read as plain numbers: {official.brief(error)}"
        ) from error
