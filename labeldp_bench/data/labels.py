"""Labels of a file: integers of any kind, in range; classes without an example are reported."""

import sys
from functools import cache

import numpy as np

from labeldp.support.progress import say
from labeldp.support.validate import InputError

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
        raise InputError(f"{file}: {key} must be class numbers from 0 on, got {labels.max()}")
    return cast


def check_label_range(file: str, train: np.ndarray, test: np.ndarray, num_classes: int) -> None:
    """Refuses labels outside [0, K); reports classes without an example.

    Such a class is no error: classes are declared before anybody looks at the labels.

    Args:
        file: its name, for the message.
        train: int64 (N,).
        test: int64 (M,).
        num_classes: K >= 2.

    Raises:
        InputError: a label is negative or too large.
    """
    for key, labels in (("y_train", train), ("y_test", test)):
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= num_classes:
            raise InputError(
                f"{file}: {key} must be in [0, {num_classes - 1}] for num_classes={num_classes}, "
                f"got {low if low < 0 else high}"
            )
    present = np.union1d(train, test)
    if len(present) < num_classes:
        absent = np.setdiff1d(np.arange(num_classes), present)
        _tell(_absence(file, absent, num_classes, used=int(present.max()) + 1))


def _absence(file: str, absent: np.ndarray, num_classes: int, used: int) -> str:
    """Returns the line on classes without an example; `used`: the largest label + 1."""
    names = ", ".join(map(str, absent[:MOST_CLASSES_NAMED].tolist()))
    more = f" and {len(absent) - MOST_CLASSES_NAMED:,} more" * (len(absent) > MOST_CLASSES_NAMED)
    which = f"class{'es' * (len(absent) > 1)} {names}{more}"
    # All at the end: perhaps the number is wrong. Below two there is nothing to learn.
    fits = len(absent) == num_classes - used and used >= 2
    hint = f" (if there are only {used}: dataset.num_classes={used})" if fits else ""
    return f"{file}: no example of {which}, of dataset.num_classes={num_classes}{hint}"


@cache
def _tell(text: str) -> None:
    """Says a line once per process, however often a file is read."""
    say(text, sys.stderr)
