"""Class-imbalanced parts of a balanced image data set, as BlockRR defines them for CIFAR-10."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from labeldp.support.validate import InputError, check_choice, check_integer, check_list
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import ImageData, Split, load_images, written_at

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
            written=written_at(data_dir, self.source),
            selection_sha256=fingerprint.hexdigest(),
            extra_tests={
                "balanced": self._limited(test, "limit_test", self.limit_test, seed).tensors()
            },
        )

    def draw_without_labels(self, data_dir: Path, seed: int) -> DataBundle:
        """Refuses: which images belong to the part follows from the labels."""
        raise InputError(
            f"{self.name} picks its images by their labels, which are not here (use a data set "
            "that has all of its images)"
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
                    f"{self.name} needs {count} {what} images of class {label}, "
                    f"{self.source} has {len(members)} (lower dataset.train_counts)"
                )
            chosen += sorted(members, key=digests.__getitem__ if by_hash else None)[:count]
        chosen.sort(key=digests.__getitem__ if by_hash else None)
        return split.take(np.array(chosen)), [digests[index] for index in chosen]
