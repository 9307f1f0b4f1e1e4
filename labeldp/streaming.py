"""Releases the label column of a file, some rows at a time: memory does not grow with the rows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from labeldp.io.tables import ROWS, TableFile, codes_of, is_empty, numbers_of, texts_of
from labeldp.ledger import digest_of_texts
from labeldp.manifest import Manifest
from labeldp.privatization import draw, scaled
from labeldp.release_file import part_of, write_parts
from labeldp.support.validate import InputError

ENTRIES = 2**22
"""Outputs for single classes that are drawn at one time, at most."""


def digest_of_column(table: TableFile, column: str) -> tuple[bytes, int]:
    """Returns a digest of a whole column as texts, and how many rows it has."""
    size = 0

    def parts() -> Iterator[list[str]]:
        nonlocal size
        for labels in table.batches(column, ROWS):
            texts, places = texts_of(labels)
            size += len(places)
            yield np.array(texts, dtype=object)[places].tolist()

    return digest_of_texts(parts()), size


def write_release(
    path: Path, table: TableFile, column: str, manifest: Manifest, *, ids: NDArray | None,
    kept: NDArray[np.bool_] | None, spent: NDArray[np.float64], seed: int | None,
) -> None:  # fmt: skip
    """Writes a release of a column in one pass: each label is read, gets its noise, is written.

    Each part has its own store and, without a seed, its own key; the labels of a part are forgotten
    before the next one is read. The distribution is that of `privatize`.

    Args:
        path: of the release.
        table: the file.
        column: the labels.
        manifest: how they are released.
        ids: of all rows of the file, (N,); None counts from 0.
        kept: which rows are released, bool (N,); None: all.
        spent: what rows, or their persons, have spent, this release included, (N,).
        seed: for tests; None: secret noise.

    Raises:
        InputError: a label that cannot be released, with its row; the file cannot be written.
    """
    at_once = max(1, min(ROWS, ENTRIES // max(1, len(manifest.classes))))

    def parts() -> Iterator[pa.Table]:
        start = 0
        for labels in table.batches(column, at_once):
            rows = slice(start, start + len(labels))
            if rows.stop > len(spent):
                break
            coded, wrong = _coded(labels, manifest)
            _refuse_wrong(table, column, labels, wrong, start, manifest)
            own = np.arange(rows.start, rows.stop) if ids is None else ids[rows]
            some = slice(None) if kept is None else kept[rows]
            part = f"rows from {start}" if start else ""
            messages = draw(manifest, torch.from_numpy(coded[some]), seed, part)
            start = rows.stop
            yield part_of(messages.numpy(), own[some], spent[rows][some], manifest)
        if start != len(spent):
            raise InputError(f"{table.path} was changed while it was read")

    write_parts(path, parts())


def check_labels(table: TableFile, column: str, manifest: Manifest) -> None:
    """Refuses the first label that cannot be released, with its row; draws nothing.

    Raises:
        InputError: as `write_release`.
    """
    start = 0
    for labels in table.batches(column, ROWS):
        _refuse_wrong(table, column, labels, _coded(labels, manifest)[1], start, manifest)
        start += len(labels)


def _refuse_wrong(
    table: TableFile, column: str, labels: pa.Array, wrong: NDArray[np.int64], start: int,
    manifest: Manifest,
) -> None:  # fmt: skip
    """Refuses the first of the `wrong` labels; they are those of the file from row `start` on."""
    for row in wrong[:1]:
        what = _told(labels.slice(row, 1), manifest)
        raise InputError(f"{table.path}, row {start + row + 1}, column {column}: {what}")


def _coded(labels: pa.Array, manifest: Manifest) -> tuple[NDArray, NDArray[np.int64]]:
    """Returns labels as the store takes them, and the places of those that cannot be released."""
    if manifest.bounds is None:
        coded = codes_of(labels, pd.Index(manifest.classes))
        return coded, np.flatnonzero(coded < 0)
    numbers = numbers_of(labels)
    return scaled(numbers, *manifest.bounds), np.flatnonzero(~np.isfinite(numbers))


def _told(label: pa.Array, manifest: Manifest) -> str:
    """Returns what is wrong with a label, which is secret and not shown, in an array of its own."""
    if is_empty(label)[0]:
        other = "" if manifest.bounds else ", or add a class for it, such as refused"
        return f"the label is empty (leave the row out{other})"
    secret = "it is not shown, as labels are secret"
    if manifest.bounds is not None:
        return f"the label is no finite number ({secret})"
    names = ",".join(map(str, manifest.classes[:10])) + ",..." * (len(manifest.classes) > 10)
    is_text = pa.types.is_string(label.type)
    if is_text and label[0].as_py().strip().casefold() in {
        str(name).casefold() for name in manifest.classes
    }:
        return (
            f"the label is one of {names} but for upper and lower case (spell it in --classes as "
            "in the file, or change the file)"
        )
    compared = ""
    if pa.types.is_boolean(label.type):
        compared = "; truth values are spelled true and false"
    elif pa.types.is_timestamp(label.type):
        compared = "; a time is spelled as 2024-01-31 00:00:00"
    elif pa.types.is_string(label.type):
        compared = "; texts are compared, 1.0 is not 1"
    return f"the label is none of {names} ({secret}{compared})"
