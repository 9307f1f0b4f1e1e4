"""The Parquet file of a release: row ids, what was released, what rows have spent, the manifest."""

import hashlib
import itertools
import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp.io.tables import ROWS_AT_ONCE
from labeldp.manifest import UNNAMED, Manifest
from labeldp.support.validate import InputError

KEY = b"labeldp"
MAGIC = b"PAR1"
"""Begins every Parquet file."""
COLUMNS = ["row", "released", "eps_spent"]
ROUNDING = 1e-9
"""Relative error of a sum of costs."""


def part_of(
    messages: NDArray, row_ids: NDArray, spent: NDArray[np.float64], manifest: Manifest
) -> pa.Table:
    """Returns some rows of a release as a table.

    Args:
        messages: whole numbers or reals (n,); bytes, uint8 (n, w); lists of whole numbers that end
            before the first -1, int32 (n, w); reals (n, K).
        row_ids: numbers or texts, (n,).
        spent: eps of each row, or of its person where the manifest has a unit, (n,).
        manifest: goes into the head of the file.
    """
    columns = [pa.array(row_ids), _column(messages, manifest), pa.array(spent)]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    return table.replace_schema_metadata({KEY: manifest.to_json().encode()})


def write_parts(path: Path, parts: Iterable[pa.Table]) -> None:
    """Writes tables of rows, one after the other, as one file; there is one at least.

    Each begins a row group, so their sizes must be public.
    """
    left = iter(parts)
    first = next(left)
    with pq.ParquetWriter(path, first.schema) as writer:
        for part in itertools.chain([first], left):
            writer.write_table(part, row_group_size=ROWS_AT_ONCE)


def _warn_of_row_groups(path: Path) -> None:
    """Warns of a file whose rows were cut where blocks of the secret file ended."""
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if len(set(sizes[:-1])) > 1 or sizes[-1:] > sizes[:1]:
        warnings.warn(
            f"{path} was written by a version whose row groups show how long the labels are, which "
            "is more than eps allows (load it, save it under another name, and hand out only that)",
            stacklevel=4,
        )


def read_parts(path: Path) -> tuple[NDArray, NDArray, NDArray, Manifest]:
    """Returns messages, row ids, costs and manifest.

    Raises:
        InputError: there is no such file, it is not a Parquet file, or it holds no release.
    """
    table, spent, manifest = _read(path, COLUMNS)
    _warn_of_row_groups(path)
    messages = _array(table["released"], len(manifest.classes))
    # Arrow's memory may not be written to.
    return np.array(messages), np.array(table["row"].to_numpy()), np.array(spent), manifest


def read_rows(path: Path) -> tuple[NDArray, NDArray[np.float64], Manifest]:
    """Returns row ids, costs and manifest, without what was released; errors as `read_parts`."""
    table, spent, manifest = _read(path, ["row", "eps_spent"])
    return table["row"].to_numpy(), spent, manifest


def _read(path: Path, columns: list[str]) -> tuple[pa.Table, NDArray[np.float64], Manifest]:
    """Returns columns of a release, the costs among them as of now, and its manifest."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        schema = pq.read_schema(path)
        is_release = KEY in (schema.metadata or {}) and schema.names == COLUMNS
        table = pq.read_table(path, columns=columns, partitioning=None) if is_release else None
    except (pa.ArrowException, OSError):
        raise InputError(f"{path} is not a Parquet file") from None
    if table is None:
        raise InputError(f"{path} holds no release (write one by `labeldp release`)")
    try:
        manifest = Manifest.from_json(schema.metadata[KEY].decode(errors="replace"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name in columns[1:]:
        kind, is_released = schema.field(name).type, name == "released"
        is_list = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind)
        values = kind.value_type if is_list and is_released else kind
        is_number = pa.types.is_integer(values) or pa.types.is_floating(values)
        is_bytes = pa.types.is_fixed_size_binary(kind) and is_released
        if not (is_number or is_bytes) or table[name].null_count:
            raise InputError(f"{path} holds no release: its column {name} is not all numbers")
    return table, *_named(path, table["eps_spent"].to_numpy(), manifest)


def _named(
    path: Path, spent: NDArray[np.float64], manifest: Manifest
) -> tuple[NDArray[np.float64], Manifest]:
    """Returns costs and manifest as of now for a file of an older version, which names no release.

    Such files hold what a row has spent, not its person.

    Raises:
        InputError: a cost that the manifest does not allow.
    """
    if not manifest.release:
        with path.open("rb") as file:  # a name that copies share
            name = hashlib.file_digest(file, "sha256").hexdigest()[:32]
        spent = spent * (manifest.unit.most_rows if manifest.unit else 1)
        manifest = replace(manifest, release=name, counted=(UNNAMED + name,))
    least = manifest.eps * (1 - ROUNDING)
    # Only earlier releases, which the manifest names, add to eps.
    most = math.inf if manifest.counted else manifest.eps * (1 + ROUNDING)
    for wrong in spent[~((spent >= least) & (spent <= most))][:1]:
        raise InputError(
            f"{path} holds no release: a row has spent eps={wrong:g}, and its release costs "
            f"{manifest.eps:g} (ask for the file again)"
        )
    return spent, manifest


def holds_release(path: Path) -> bool:
    """Returns whether a file, of whatever name, is a release; reads no more than its end.

    Raises:
        InputError: it may not be read, or is damaged: it may be an earlier release.
    """
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
        return KEY in (pq.read_schema(path).metadata or {})
    except PermissionError:
        if path.suffix.lower() != ".parquet":
            return False
        what, remedy = "may not be read", "see who may read it"
    except (OSError, pa.ArrowInvalid):
        what, remedy = "is no whole Parquet file", "copy it again"
    raise InputError(
        f"{path} {what}, and may hold an earlier release ({remedy}, or write to another folder)"
    )


def check_replaces(path: Path, row_ids: NDArray, manifest: Manifest) -> None:
    """Refuses to write a release over another one, or over more rows of the same one.

    Raises:
        InputError: what would be lost.
    """
    if not path.exists() or not holds_release(path):
        return
    ids, _, earlier = read_rows(path)
    lost = int((~np.isin(ids.astype(str), row_ids.astype(str))).sum())
    if earlier.release == manifest.release and not lost:
        return
    what = "another release"
    if earlier.release == manifest.release:
        what = f"{lost:,} rows of this release that are not here"
    raise InputError(f"{path} holds {what} (save under another name)")


def _column(messages: NDArray, manifest: Manifest) -> pa.Array:
    """Returns messages as a column; outputs of old releases, (n, K), stay lists of numbers."""
    size = len(messages)
    if messages.ndim == 1:
        return pa.array(messages)
    width = messages.shape[1]
    if manifest.stored == "outputs":
        return pa.FixedSizeListArray.from_arrays(pa.array(messages.ravel()), width)
    if messages.dtype == np.uint8:
        raw = pa.py_buffer(np.ascontiguousarray(messages))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), size, [None, raw])
    kept = messages >= 0
    ends = np.concatenate([[0], kept.sum(1).cumsum()]).astype(np.int32)
    return pa.ListArray.from_arrays(ends, messages[kept])


def _array(column: pa.ChunkedArray, most: int) -> NDArray:
    """Returns a column as the array that `_column` was given; a list has at most `most` entries."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return column.combine_chunks().flatten().to_numpy().reshape(-1, kind.list_size)
    if pa.types.is_fixed_size_binary(kind):
        chunks = [np.frombuffer(chunk.buffers()[1], np.uint8).reshape(-1, kind.byte_width)[
            chunk.offset : chunk.offset + len(chunk)] for chunk in column.chunks]  # fmt: skip
        return np.concatenate(chunks) if chunks else np.empty((0, kind.byte_width), np.uint8)
    if pa.types.is_list(kind):
        counts = np.concatenate([np.zeros(0, np.int64), *(
            chunk.value_lengths().to_numpy() for chunk in column.chunks)])  # fmt: skip
        if counts.max(initial=0) > most:  # before it fills the memory
            raise InputError(f"a list of the release has more than {most} entries")
        found = np.full((len(counts), int(counts.max(initial=0))), -1, np.int32)
        values = [chunk.flatten().to_numpy() for chunk in column.chunks]
        found[np.arange(found.shape[1]) < counts[:, None]] = np.concatenate(values)
        return found
    return column.to_numpy()
