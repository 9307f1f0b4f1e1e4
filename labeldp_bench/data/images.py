"""Images from one .npz file per data set: an official one, or a user's own."""

import hashlib
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.lib.format import read_array_header_1_0, read_array_header_2_0, read_magic
from torch import Tensor

from labeldp.store import LabelStore
from labeldp.support import seeding
from labeldp.support.validate import InputError, check_choice, check_integer, check_list
from labeldp_bench.data import official
from labeldp_bench.data.bundle import DataBundle

MOST_CLASSES_NAMED = 5


def as_labels(file: str, key: str, labels: np.ndarray) -> np.ndarray:
    """Returns `labels` as int64 (N,), each exactly as it was.

    Args:
        file: its name, for the message.
        key: of the array.
        labels: integers of any type.

    Raises:
        InputError: no integers, another shape, or a number that int64 does not hold.
    """
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"{file}: {key} must be integers (N,), got {labels.dtype} of shape {labels.shape} "
            "(numpy.unique(y, return_inverse=True) numbers classes of any kind)"
        )
    cast = labels.astype(np.int64)
    if not np.array_equal(cast, labels):  # uint64 beyond 2**63
        raise InputError(f"{file}: {key} must be class numbers from 0 on, got some beyond 2**63")
    return cast


def check_label_range(file: str, train: np.ndarray, test: np.ndarray, num_classes: int) -> None:
    """Refuses labels outside [0, K), without showing one.

    Args:
        file: its name, for the message.
        train: int64 (N,).
        test: int64 (M,).
        num_classes: K >= 2.

    Raises:
        InputError: a label is negative or too large; names its position.
    """
    for key, labels in (("y_train", train), ("y_test", test)):
        for row in np.flatnonzero((labels < 0) | (labels >= num_classes))[:1]:
            raise InputError(
                f"{file}: {key} must be in [0, {num_classes - 1}] for num_classes={num_classes}, "
                f"and {key}[{row}] is not (it is not shown, as labels are secret)"
            )


def absent_classes(file: str, train: np.ndarray, test: np.ndarray, num_classes: int) -> str:
    """Returns a line on classes without an example; empty if there is none.

    Such a class is no error: classes are declared before anybody looks at the labels.

    Args:
        file: its name.
        train: int64 (N,), in [0, K).
        test: int64 (M,), in [0, K).
        num_classes: K >= 2.
    """
    present = np.union1d(train, test)
    absent = np.setdiff1d(np.arange(num_classes), present)
    if not len(absent):
        return ""
    used = int(present.max()) + 1
    names = ", ".join(map(str, absent[:MOST_CLASSES_NAMED].tolist()))
    if len(absent) > MOST_CLASSES_NAMED:
        names += f" and {len(absent) - MOST_CLASSES_NAMED:,} more"
    line = f"{file}: no example of class {names}, of dataset.num_classes={num_classes}"
    if len(absent) == num_classes - used and used >= 2:  # all at the end: is the number wrong?
        line += f" (if there are only {used}: dataset.num_classes={used})"
    return line


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
        train, test = self._splits(data_dir)
        return replace(
            self._bundle(train, test, seed),
            remark=absent_classes(f"{self.name}.npz", train.labels, test.labels, self.num_classes),
        )

    def _splits(self, data_dir: Path) -> tuple[Split, Split]:
        return load_images(data_dir, self.name, self.num_classes)

    def _bundle(self, train: Split, test: Split, seed: int) -> DataBundle:
        train = self._limited(train, "limit_train", self.limit_train, seed)
        test = self._limited(test, "limit_test", self.limit_test, seed)
        train_images, train_labels = train.tensors()
        test_images, test_labels = test.tensors()
        return DataBundle(
            name=self.name,
            train_features=train_images,
            store=LabelStore(train_labels, self.num_classes),
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


def load_images(data_dir: Path, name: str, num_classes: int) -> tuple[Split, Split]:
    """Returns training and test split of `<data_dir>/<name>.npz`, fetched first if need be.

    Raises:
        InputError: one line that names file, array, what is expected and what was found.
    """
    path = file_of(data_dir, name)
    if not path.exists():
        official.fetch(name, path)
    train, test = read_npz(path)
    check_label_range(path.name, train.labels, test.labels, num_classes)
    return train, test


def read_npz(path: Path) -> tuple[Split, Split]:
    """Returns training and test split of a file whose number of classes is not known.

    Raises:
        InputError: see `load_images`.
    """
    train, test = _read_split(path, "train"), _read_split(path, "test")
    if train.images.shape[1:] != test.images.shape[1:]:
        raise InputError(
            f"{path.name}: images of x_test must have the shape of x_train's, "
            f"{train.images.shape[1:]}, got {test.images.shape[1:]}"
        )
    return train, test


def _read_split(path: Path, part: str) -> Split:
    images, labels = _read_array(path, f"x_{part}"), _read_array(path, f"y_{part}")
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


@dataclass(frozen=True, kw_only=True)
class CoarseImages(ImageData):
    """Has groups of another data set's classes as its classes; the images are the same.

    Args:
        source: the data set that the images are taken from.
        groups: the group of each class of the source, integers in [0, K).
    """

    source: str
    groups: Sequence[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_list("dataset.groups", self.groups, "groups, one for each class of the source")
        for group in self.groups:
            check_integer("dataset.groups", group, low=0, high=self.num_classes - 1)

    def _splits(self, data_dir: Path) -> tuple[Split, Split]:
        groups = np.array(self.groups, dtype=np.int64)
        fine = load_images(data_dir, self.source, len(groups))
        train, test = (part._replace(labels=groups[part.labels]) for part in fine)
        return train, test


SELECTIONS = ("hash", "file_order")
TRAIN_PER_TEST = 10
"""Every class keeps one test image for ten training images."""


@dataclass(frozen=True, kw_only=True)
class ImbalancedImages(ImageData):
    """Keeps `train_counts[c]` training images of class c, and a tenth as many test images.

    The part is the same for every seed of a run, as in the paper. The whole, balanced test set is
    kept beside it as the extra test set `balanced`: on the scaled one, overall accuracy favours
    the large classes.

    Source: Liu, Ding (2026), BlockRR, section 5.1.1. It says that the test set is the original one,
    and that each class has a tenth of its training count; its per-class tables fit the latter.
    Which images are taken it does not say: its code takes the first of each class in the official
    files (`file_order`). Copies of CIFAR-10 differ in order, so the default is `hash`.

    Args:
        source: the data set that the images are taken from.
        train_counts: for each of the K classes a multiple of 10.
        selection: `hash` takes in each class the images with the smallest SHA-256 of
            `selection_seed` (8 bytes, big-endian) and pixels, and puts all in that order, so that
            every copy of the source gives the same arrays; `file_order` takes the first ones.
        selection_seed: >= 0; another one gives another part.
    """

    source: str
    train_counts: Sequence[int]
    selection: str = "hash"
    selection_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("dataset.selection", self.selection, SELECTIONS)
        check_integer("dataset.selection_seed", self.selection_seed, low=0, high=2**63 - 1)
        what = "counts, one for each class"
        check_list("dataset.train_counts", self.train_counts, what, length=self.num_classes)
        for count in self.train_counts:
            if check_integer("dataset.train_counts", count, low=1) % TRAIN_PER_TEST:
                raise InputError(
                    f"dataset.train_counts must be multiples of {TRAIN_PER_TEST}, as each class "
                    f"keeps a tenth as many test images, got {count}"
                )

    def draw(self, data_dir: Path, seed: int) -> DataBundle:
        """Returns the part, its fingerprint and the balanced test set; see `ImageData.draw`.

        Raises:
            InputError: as `ImageData.draw`, or a class of the source is too small.
        """
        train, test = load_images(data_dir, self.source, self.num_classes)
        test_counts = [count // TRAIN_PER_TEST for count in self.train_counts]
        train_part, train_digests = self._select(train, self.train_counts, "training")
        test_part, test_digests = self._select(test, test_counts, "test")
        fingerprint = hashlib.sha256(b"".join([*sorted(train_digests), *sorted(test_digests)]))
        return replace(
            self._bundle(train_part, test_part, seed),
            selection_sha256=fingerprint.hexdigest(),
            extra_tests={
                "balanced": self._limited(test, "limit_test", self.limit_test, seed).tensors()
            },
        )

    def _select(self, split: Split, counts: Sequence[int], what: str) -> tuple[Split, list[bytes]]:
        """Returns the chosen images of a split, and the digest of each."""
        prefix = self.selection_seed.to_bytes(8, "big")
        digests = [hashlib.sha256(prefix + image.tobytes()).digest() for image in split.images]
        by_hash = self.selection == "hash"
        chosen: list[int] = []
        for label, count in enumerate(counts):
            members = np.flatnonzero(split.labels == label).tolist()
            if len(members) < count:
                raise InputError(
                    f"{self.name} needs more {what} images of some class than {self.source} has "
                    "(lower dataset.train_counts)"
                )
            chosen += sorted(members, key=digests.__getitem__ if by_hash else None)[:count]
        chosen.sort(key=digests.__getitem__ if by_hash else None)
        return split.take(np.array(chosen)), [digests[index] for index in chosen]
