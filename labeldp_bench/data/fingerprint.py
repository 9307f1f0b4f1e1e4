"""Hashes of image data that ignore the order of the examples, in which copies differ."""

import hashlib
from collections.abc import Iterable

import numpy as np

from labeldp_bench.data.images import Split


def of_images(train: Split, test: Split) -> str:
    """Returns the SHA-256 of all images and of the test labels; no training label counts."""
    return _joined(_digests(train.images, None), _digests(test.images, test.labels))


def of_training_labels(train: Split) -> str:
    """Returns the SHA-256 of the training images, each with its label.

    For public labels alone, and never for a record: whoever knows all labels but one could read
    that one off the hash.
    """
    return _joined(_digests(train.images, train.labels))


def _digests(images: np.ndarray, labels: np.ndarray | None) -> list[bytes]:
    """Returns a digest of each example, sorted."""
    before = [b""] * len(images) if labels is None else [int(y).to_bytes(8, "big") for y in labels]
    return sorted(
        hashlib.sha256(label + image.tobytes()).digest()
        for label, image in zip(before, images, strict=True)
    )


def _joined(*parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(digest for part in parts for digest in part)).hexdigest()
