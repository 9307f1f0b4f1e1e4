"""The tables that the commands read: a row for each label, and a column that names rows."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.support.validate import InputError

# The package of tables takes seconds to import, which help and a wrong option need not wait for.

NO_CATEGORY = "leave it out: --drop {name}"


def read_people(path: Path, row_id: str | None = None) -> pd.DataFrame:
    """Returns the table in a CSV, TSV or Parquet file.

    Args:
        path: of the file.
        row_id: the column of row ids; pandas may have written it as its index.

    Raises:
        InputError: no such file, another kind of file, one that cannot be read.
    """
    from labeldp.io.files import read_table

    table = read_table(path, what="")
    return table.reset_index() if row_id is not None and row_id == table.index.name else table


def column_of(table: pd.DataFrame, name: str, option: str, path: Path) -> pd.Series:
    """Returns the column that an option names.

    Raises:
        InputError: there is none of that name.
    """
    from labeldp.io.files import check_column

    return table[check_column(str(path), table, option, name)]


def row_ids_of(table: pd.DataFrame, name: str | None, path: Path) -> NDArray:
    """Returns the ids in a column, or the place of each row, counted from 0."""
    if name is None:
        return np.arange(len(table))
    return row_ids_in(column_of(table, name, "--row-id", path), path)


def row_ids_in(ids: pd.Series, path: Path) -> NDArray:
    """Returns the ids in a column; refuses an empty one, and one that is there twice."""
    from labeldp.names import check_texts

    if ids.dtype.kind in "iu" and ids.is_monotonic_increasing and ids.is_unique:
        return ids.to_numpy()
    check_texts(ids.to_numpy(), f"{path}, column {ids.name}: row ids")
    wrong = ids.isna() | ids.duplicated()
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = "is empty" if ids.isna().iloc[row] else f"has {ids.iloc[row]} a second time"
        raise InputError(
            f"{path}, row {row + 1}, column {ids.name}: {what}, but --row-id needs a column that "
            "names each row once (a person with several rows is named by `release --unit`)"
        )
    return ids.to_numpy()
