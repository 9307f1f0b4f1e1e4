"""Tables of people: CSV and Parquet files, and their columns as features."""

from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from labeldp_bench.own_labels.file import read_table
from labeldp_bench.support.validate import InputError, did_you_mean

MOST_CATEGORIES = 50
"""Of one column; rarer ones are put together."""


def read_people(path: Path, texts: str | None = None) -> pd.DataFrame:
    """Returns the table in a CSV or Parquet file.

    Args:
        path: ends in .csv or .parquet.
        texts: a column that is read as texts, as they are written.

    Raises:
        InputError: no such file, another kind of file, a line that cannot be read.
    """
    if path.suffix == ".parquet":
        table = read_table(path).to_pandas()
        if texts in table.columns:
            missing = table[texts].isna()
            table[texts] = table[texts].astype(str).where(~missing, "")
    elif path.suffix in (".csv", ".txt"):
        table = _read_csv(path, texts)
    else:
        raise InputError(f"{path} must end in .csv or .parquet")
    if not len(table):
        raise InputError(f"{path} has no rows")
    if not table.columns.is_unique:
        raise InputError(f"{path} has the column {table.columns[table.columns.duplicated()][0]} "
                         "twice")  # fmt: skip
    return table


def _read_csv(path: Path, texts: str | None) -> pd.DataFrame:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        table = pd.read_csv(path)
        if texts in table.columns:
            column = pd.read_csv(path, usecols=[texts], dtype=str, keep_default_na=False)
            table[texts] = column[texts]
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {str(error).strip()}") from None
    return table


def column_of(table: pd.DataFrame, name: str, path: Path) -> pd.Series:
    """Returns a column.

    Raises:
        InputError: there is none of that name.
    """
    if name not in table.columns:
        known = list(map(str, table.columns))
        listed = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        raise InputError(f"{path} has no column {name}; columns: {listed}"
                         f"{did_you_mean(name, known)}")  # fmt: skip
    return table[name]


def row_ids_of(table: pd.DataFrame, name: str | None, path: Path) -> np.ndarray:
    """Returns the ids in a column, or the number of each row, from 0."""
    if name is None:
        return np.arange(len(table))
    ids = column_of(table, name, path)
    wrong = ids.isna() | ids.duplicated()
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = "is empty" if ids.isna().iloc[row] else f"has {ids.iloc[row]!r} a second time"
        raise InputError(f"{path}, row {row}, column {name}: {what} (row ids must be distinct)")
    return ids.to_numpy()


def features_to_numbers(table: pd.DataFrame) -> ColumnTransformer:
    """Returns the unfitted way from columns to numbers.

    Numbers are standardised, missing ones take the median; every other column has one feature for
    each of its values. Features are public, so nothing of this costs privacy.
    """
    numeric = [name for name in table.columns if is_numeric_dtype(table[name])]
    other = [name for name in table.columns if name not in numeric]
    parts: list[tuple[str, Pipeline, list[str]]] = []
    if numeric:
        steps = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
        parts.append(("numbers", steps, numeric))
    if other:
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES,
            sparse_output=False,
        )  # fmt: skip
        parts.append(("categories", make_pipeline(encoder), other))
    return ColumnTransformer(parts)
