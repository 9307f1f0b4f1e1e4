"""A CSV or Parquet file as a frame; what is wrong with it in one line."""

import contextlib
import re
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp_bench.support.validate import InputError, did_you_mean

READERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
OTHER_SEPARATORS = (";", "\t", "|", ",")
LARGEST = 1e150
"""Number of a column: a column is scaled by its variance, and that of larger ones overflows."""


def read_table(path: Path, what: str = "dataset.file: ") -> pd.DataFrame:
    """Returns the table of a file; every column has a name of its own.

    Args:
        path: of the file.
        what: what messages about the path begin with.

    Raises:
        InputError: no such file, another kind of file, one that cannot be read, no row.
    """
    name = check_name(path, what)
    with readable(path):
        check_header(path)
        if name.endswith(".parquet"):
            # Folders such as a=1 are no columns.
            table = without_decimals(pd.read_parquet(path, partitioning=None))
        else:
            table = pd.read_csv(path, **_as_text(path), low_memory=False)
    if not len(table):
        raise InputError(f"{path.name} has no rows")
    return table.set_axis(list(map(str, table.columns)), axis=1)  # names of several levels too


def _as_text(path: Path) -> dict[str, Any]:
    """Returns how pandas reads a text file."""
    return {"sep": separator_of(path), "skip_blank_lines": not has_one_column(path)}


def has_one_column(path: Path) -> bool:
    """Returns whether an empty line of a text file is a row with an empty cell.

    It is where there is one column: no row after it may move.
    """
    return pd.read_csv(path, sep=separator_of(path), nrows=0).shape[1] == 1


def without_decimals(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the table with decimals, which databases write, as numbers; whole ones stay exact."""
    read = table.copy(deep=False)  # no `assign`: a column may be named as its argument is, self
    for name in read.columns:
        there = read[name].dropna()
        if there.dtype.kind != "O" or not len(there) or not there.map(_is_decimal).all():
            continue
        is_whole = len(there) == len(read) and all(cell.as_tuple().exponent == 0 for cell in there)
        read[name] = there.map(int) if is_whole else pd.to_numeric(read[name])
    return read


def _is_decimal(cell: object) -> bool:
    return isinstance(cell, Decimal) and cell.is_finite()


def as_written(path: Path, table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Returns the table with these columns as texts, as a text file has them.

    007 stays 007, and `true` does not become `True`, which it is in a file with true and false
    alone, and is not in one with `unknown` too.

    Args:
        path: of the file.
        table: what `read_table` returned of it.
        names: of columns.
    """
    if path.name.lower().endswith(".parquet"):
        return table
    changed = [name for name in names if not _has_texts(table[name])]
    if not changed:
        return table
    with readable(path):
        texts = pd.read_csv(path, **_as_text(path), usecols=changed, dtype=str)
    read = table.copy()  # no `assign`: a column may be named as its argument is, self
    read[changed] = texts[changed]
    return read


def _has_texts(column: pd.Series) -> bool:
    """Returns whether pandas left a column of a text file as it is: texts, or missing."""
    cells = column.drop_duplicates()  # a category repeats a million times
    return column.dtype.kind not in "iufb" and not cells.map(pd.api.types.is_bool).any()


def check_name(path: Path, what: str) -> str:
    """Returns the name of a file, in small letters, if it is of a kind that is read, and there."""
    name = path.name.lower()
    if not name.endswith(READERS):
        raise InputError(
            f"{what}{path} must end in {', '.join(READERS)} (spreadsheets can be saved as .csv)"
        )
    if not path.is_file():
        raise InputError(f"{what}there is no file {path}")
    return name


def check_header(path: Path) -> None:
    """Refuses a table with two columns of one name: nobody could say which of them is meant.

    Columns without a name are allowed. A table with another separator is refused too.
    """
    if path.name.lower().endswith(".parquet"):
        names = pq.read_schema(path).names
    else:  # pandas would call the second one name.1
        names = first_rows(path, separator_of(path), 1).iloc[0].tolist()
        for other in OTHER_SEPARATORS:
            if len(names) == 1 and other in names[0] and _separates(path, other):
                raise InputError(
                    f"{path} has {other!r} between its cells (write it with commas, or with tabs "
                    "and a name that ends in .tsv)"
                )
        first_rows(path, separator_of(path), 2)  # pandas takes cells that are too many for row ids
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(f"{path} has two columns {name} (give each a name of its own)")


def first_rows(path: Path, separator: str, rows: int) -> pd.DataFrame:
    """Returns the first rows of a text file, the header among them, as texts."""
    given = {"header": None, "dtype": str, "keep_default_na": False}
    return pd.read_csv(path, sep=separator, nrows=rows, **given)


def _separates(path: Path, separator: str) -> bool:
    """Returns whether the separator stands in the row after the header as often as in it."""
    try:
        rows = first_rows(path, separator, 2)
    except ValueError:
        return False
    return len(rows) == 2 and bool((rows.notna() & (rows != "")).all(axis=None))


def separator_of(path: Path) -> str:
    """Returns what stands between the cells of a text file."""
    return "\t" if ".tsv" in path.name.lower() else ","


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns what pandas and Arrow raise inside into one line.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, OSError, UnicodeError, EOFError, NotImplementedError, zlib.error) as error:
        raise InputError(_told(path, error)) from None


def _told(path: Path, error: Exception) -> str:
    """Returns in the words of a user what pandas or Arrow say of a file."""
    said = " ".join(str(error).split())
    if isinstance(error, pd.errors.EmptyDataError):
        return f"{path.name} is empty"
    if isinstance(error, UnicodeError) or "invalid UTF8" in said:
        return f"{path.name} is not text in UTF-8 (write it as UTF-8, which spreadsheets offer)"
    if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", said):  # Arrow
        return _unequal(path, f"row {int(found[1]) - 1}", f"{found[3]} cells", int(found[2]))
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said):  # pandas
        return _unequal(path, f"line {found[2]}", f"{found[3]} cells", int(found[1]))
    return f"{path.name} cannot be read as a table: {said}"


def _unequal(path: Path, row: str, cells: str, columns: int) -> str:
    """Returns the message that a row has more or fewer cells than the header."""
    sign = "tab" if separator_of(path) == "\t" else "comma"
    return (
        f"{path.name}: {row} has {cells}, and the header has {columns} (a {sign} that is too much "
        "or missing? one inside a cell needs quotes)"
    )


def check_column(file: str, table: pd.DataFrame, key: str, name: str) -> str:
    """Returns the name of a column if the table has it."""
    if name not in table.columns:
        some = ", ".join(list(table.columns)[:20]) + (", ..." if table.shape[1] > 20 else "")
        raise InputError(
            f"{file}: {key}={name} is not a column{did_you_mean(name, list(table.columns))}; "
            f"columns: {some}"
        )
    return name


def label_codes(file: str, column: pd.Series, classes: Sequence[str]) -> NDArray[np.int64]:
    """Returns the position of each label in `classes`, int64 (N,).

    Args:
        file: its name, for messages.
        column: the labels; numbers and truth values are compared as text, 1.0 as `1`.
        classes: their names.

    Raises:
        InputError: a label is missing or no class; names file, row (the first is 1) and column.
    """
    texts = label_texts(column)
    codes = pd.Index(classes).get_indexer(pd.Index(texts))
    wrong = np.flatnonzero(codes < 0)
    if len(wrong):
        row, more = int(wrong[0]), f" ({len(wrong)} rows like it)" if len(wrong) > 1 else ""
        where = f"{file}, row {row + 1}, column {column.name}"
        if pd.isna(column.iloc[row]):
            raise InputError(f"{where}: the label is missing{more}")
        raise InputError(
            f"{where}: {texts[row]!r} is not one of dataset.classes=[{','.join(classes)}]{more}"
        )
    return codes.astype(np.int64)


def label_texts(column: pd.Series) -> list[str]:
    """Returns labels as texts: 1.0 and 1.00 are `1`, true is `true`, a missing one is empty."""
    return [_text(value) for value in column.tolist()]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.15g}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"  # 1.00 is `1`, as of other numbers
    return "" if value is None or value is pd.NA else str(value).strip()


def check_numbers(
    file: str, table: pd.DataFrame, columns: Sequence[str],
    advice: str = " (leave {name} out of dataset.numeric, and it is a category)",
) -> pd.DataFrame:  # fmt: skip
    """Returns a copy of the table with `columns` as numbers.

    Args:
        file: its name, for messages.
        table: with these columns.
        columns: their names.
        advice: the end of the message; {name} is the column.

    Raises:
        InputError: a cell is not a number; names file, row and column.
    """
    read = table.copy()  # no `assign`: a column may be named as its argument is, self
    for name in columns:
        try:
            numbers = pd.to_numeric(table[name], errors="coerce")
        except OverflowError:  # a whole number beyond all floats
            numbers = table[name].map(_as_float)
        wrong = np.flatnonzero(numbers.isna() & table[name].notna())
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"{file}, row {row + 1}, column {name}: {table[name].iloc[row]!r} is not a number"
                + advice.format(name=name)
            )
        read[name] = numbers
    return read


def _as_float(cell: object) -> float:
    try:
        return float(str(cell))  # infinity where the text has too many digits
    except ValueError:
        return np.nan


def check_finite(
    file: str, columns: pd.DataFrame, advice: str = "leave it out: dataset.drop=[{name}]"
) -> None:
    """Refuses huge numbers, lists, bytes, texts nearly all different; see `check_numbers`."""
    for name in columns:
        column = columns[name]
        if pd.api.types.is_numeric_dtype(column):
            numbers = column.to_numpy(np.float64, na_value=np.nan)
            for row in np.flatnonzero(np.abs(numbers) > LARGEST)[:1]:
                what = "is infinite"
                if np.isfinite(numbers[row]):
                    what = (f"{numbers[row]:g} is too large to be squared, at most {LARGEST:g} is "
                            "allowed (give the column another unit)")  # fmt: skip
                raise InputError(f"{file}, row {row + 1}, column {name}: the number {what}")
        elif not column.map(pd.api.types.is_hashable).all():  # as Parquet may hold them
            raise InputError(
                f"{file}: column {name} has lists or records, and is no category "
                f"({advice.format(name=name)})"
            )
        elif not column.map(_is_text).all():
            raise InputError(
                f"{file}: column {name} has bytes that are no text in UTF-8, and is no category "
                f"({advice.format(name=name)})"
            )
        elif len(column) >= 100 and (different := column.nunique()) > len(column) / 2:
            raise InputError(
                f"{file}: column {name} has {different} different texts in {len(column)} rows, "
                f"which is no category ({advice.format(name=name)})"
            )


def _is_text(cell: object) -> bool:
    """Returns whether pandas can make a text of the cell: of bytes it reads UTF-8 alone."""
    if isinstance(cell, bytes):
        try:
            cell.decode()
        except UnicodeDecodeError:
            return False
    return True
