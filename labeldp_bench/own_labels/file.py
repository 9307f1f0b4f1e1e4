"""A release as a Parquet file: row ids, what was released, what was spent, and the manifest."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp_bench.own_labels.manifest import Manifest
from labeldp_bench.support.files import replacing
from labeldp_bench.support.validate import InputError

KEY = b"labeldp"
COLUMNS = ["row", "released", "eps_spent"]


def write_parts(
    path: Path, outputs: NDArray, row_ids: NDArray, spent: NDArray, manifest: Manifest
) -> None:
    """Writes the file in one step.

    Raises:
        InputError: the folder is not there, or cannot be written to.
    """
    released = pa.array(outputs.ravel())
    if outputs.ndim == 2:
        released = pa.FixedSizeListArray.from_arrays(released, outputs.shape[1])
    columns = [pa.array(row_ids.tolist()), released, pa.array(spent)]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    table = table.replace_schema_metadata({KEY: manifest.to_json().encode()})
    try:
        with replacing(path) as partial:
            pq.write_table(table, partial)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error.strerror or error})") from None


def read_parts(path: Path) -> tuple[NDArray, NDArray, NDArray, Manifest]:
    """Returns outputs, row ids, costs and manifest.

    Raises:
        InputError: there is no such file, or it holds no release.
    """
    table = read_table(path)
    metadata = table.schema.metadata or {}
    if KEY not in metadata or table.column_names != COLUMNS:
        raise InputError(f"{path} holds no release (write one by `labeldp release`)")
    try:
        manifest = Manifest.from_json(metadata[KEY].decode(errors="replace"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for name in COLUMNS[1:]:
        kind = table.schema.field(name).type
        values = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
        is_number = pa.types.is_integer(values) or pa.types.is_floating(values)
        if not is_number or table[name].null_count:
            raise InputError(f"{path} holds no release: its column {name} is not all numbers")
    released = table["released"].combine_chunks()
    if pa.types.is_fixed_size_list(released.type):
        values = released.flatten().to_numpy().reshape(-1, released.type.list_size)
    else:
        values = released.to_numpy()
    # Arrow's memory may not be written to.
    parts = (values, table["row"].to_numpy(), table["eps_spent"].to_numpy())
    outputs, row_ids, spent = (np.array(part) for part in parts)
    return outputs, row_ids, spent, manifest


def holds_release(path: Path) -> bool:
    """Returns whether the file is a Parquet file with a manifest; reads no more than its end."""
    try:
        return KEY in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowInvalid):
        return False


def read_table(path: Path) -> pa.Table:
    """Returns a Parquet file's table.

    Raises:
        InputError: there is no such file, or it is no Parquet file.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        return pq.read_table(path, partitioning=None)
    except (pa.ArrowInvalid, OSError):
        raise InputError(f"{path} is no Parquet file") from None
