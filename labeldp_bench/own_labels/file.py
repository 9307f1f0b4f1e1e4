"""A release as a Parquet file: row ids, what was released, what was spent, and the manifest."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from labeldp_bench.own_labels.manifest import Manifest
from labeldp_bench.own_labels.release import Release, checked_row_ids
from labeldp_bench.support.files import replacing
from labeldp_bench.support.validate import InputError

KEY = b"labeldp"
COLUMNS = ["row", "released", "eps_spent"]


def write_release(release: Release, path: Path) -> None:
    """Writes the file in one step.

    Raises:
        InputError: the folder is not there, or cannot be written to.
    """
    outputs = release.outputs.numpy()
    released = pa.array(outputs.ravel())
    if outputs.ndim == 2:
        released = pa.FixedSizeListArray.from_arrays(released, outputs.shape[1])
    columns = [pa.array(release.row_ids.tolist()), released, pa.array(release.spent)]
    table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
    table = table.replace_schema_metadata({KEY: release.manifest.to_json().encode()})
    try:
        with replacing(path) as partial:
            pq.write_table(table, partial)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error.strerror or error})") from None


def load_release(path: str | Path) -> Release:
    """Returns the release that `Release.save` wrote.

    Raises:
        InputError: there is no such file, or it holds no release.
    """
    table = read_table(Path(path))
    metadata = table.schema.metadata or {}
    if KEY not in metadata or table.column_names != COLUMNS:
        raise InputError(f"{path} holds no release (write one by `labeldp release`)")
    try:
        manifest = Manifest.from_json(metadata[KEY].decode())
        released = table["released"].combine_chunks()
        if pa.types.is_fixed_size_list(released.type):
            width = released.type.list_size
            values = released.flatten().to_numpy().reshape(-1, width)
        else:
            values = released.to_numpy()
        outputs = torch.from_numpy(np.array(values))  # Arrow's memory may not be written to
        ids = checked_row_ids(table["row"].to_numpy(), len(values))
        release = Release(outputs, ids, table["eps_spent"].to_numpy().copy(), manifest)
        if manifest.classes and len(release) and np.isnan(release.log_likelihood()).any():
            raise InputError("an output is no number")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return release


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
