"""Releases the label column of a file: read once, then drawn and written some rows at a time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from labeldp.accounted_rows import ColumnDigest
from labeldp.io.labels import NOT_SHOWN, codes_of, numbers_of, texts_of, wrong_label
from labeldp.io.tables import ROWS_AT_ONCE, TableFile, is_empty
from labeldp.manifest import Manifest
from labeldp.privatization import draw, scaled
from labeldp.release_file import part_of, write_parts
from labeldp.support.validate import InputError

ENTRIES = 2**22
"""Outputs for single classes that are drawn at one time, at most."""


def digest_of_column(table: TableFile, column: str) -> ColumnDigest:
    """Returns the digest of a whole column as texts."""
    digest = ColumnDigest()
    for labels in table.batches(column):
        _add(digest, labels)
    return digest


def _add(digest: ColumnDigest, labels: pa.Array) -> None:
    texts, places = texts_of(labels)
    digest.add(np.array(texts, dtype=object)[places].tolist())


def read_labels(table: TableFile, column: str, manifest: Manifest) -> tuple[NDArray, ColumnDigest]:
    """Returns the true labels of a file, all of which can be released, and the column's digest.

    Labels are as `draw` takes them, (N,): positions of classes, in as few bytes as they need, or
    float64 in [-1, 1]. Nothing is drawn.

    Raises:
        InputError: a label that cannot be released, with its row; there is none; the file cannot be
            read.
    """
    kind = np.min_scalar_type(len(manifest.classes)) if manifest.classes else np.float64
    parts: list[NDArray] = [np.empty(0, kind)]
    digest = ColumnDigest()
    for labels in table.batches(column):
        try:
            coded, wrong = _coded(labels, manifest)
        except InputError as error:
            raise InputError(f"{table.path}, column {column}: {error}") from None
        for row in wrong[:1]:
            what = _reason(labels.slice(row, 1), manifest)
            raise InputError(f"{table.path}, row {digest.size + row + 1}, column {column}: {what}")
        _add(digest, labels)
        parts.append(coded.astype(kind))
    if not digest.size:
        raise InputError(f"{table.path.name} has no rows")
    return np.concatenate(parts), digest


def write_release(
    path: Path, coded: NDArray, manifest: Manifest, *, ids: NDArray, spent: NDArray[np.float64],
    seed: int | None,
) -> None:  # fmt: skip
    """Writes a release of labels, with as many rows at a time as public numbers say.

    Each part has its own store and, without a seed, its own key. The distribution is that of
    `privatize`.

    Args:
        path: of the release.
        coded: labels as `read_labels` returns them, (n,).
        manifest: how they are released.
        ids: of the rows, (n,).
        spent: what rows, or their persons, have spent, this release included, (n,).
        seed: for tests; None: secret noise.
    """
    at_once = max(1, min(ROWS_AT_ONCE, ENTRIES // max(1, len(manifest.classes))))

    def parts() -> Iterator[pa.Table]:
        for start in range(0, max(1, len(coded)), at_once):
            rows = slice(start, start + at_once)
            part = f"rows from {start}" if start else ""
            labels = coded[rows] if manifest.bounds else coded[rows].astype(np.int64)
            messages = draw(manifest, torch.from_numpy(labels), seed, part)
            yield part_of(messages.numpy(), ids[rows], spent[rows], manifest)

    write_parts(path, parts())


def _coded(labels: pa.Array, manifest: Manifest) -> tuple[NDArray, NDArray[np.int64]]:
    """Returns labels as the store takes them, and the places of those that cannot be released."""
    if manifest.bounds is None:
        coded = codes_of(labels, pd.Index(manifest.classes))
        return coded, np.flatnonzero(coded < 0)
    numbers = numbers_of(labels)
    return scaled(numbers, *manifest.bounds), np.flatnonzero(~np.isfinite(numbers))


def _reason(label: pa.Array, manifest: Manifest) -> str:
    """Returns what is wrong with a label, which is secret and not shown, in an array of its own."""
    if manifest.bounds is None:
        return wrong_label(label, manifest.classes, "--classes")
    if is_empty(label)[0]:
        return "the label is empty (leave the row out)"
    return f"the label is no finite number ({NOT_SHOWN})"
