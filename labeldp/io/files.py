"""A CSV or Parquet file as a frame; what is wrong with it in one line."""

import contextlib
import re
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from labeldp.support.validate import InputError, did_you_mean

READERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
OTHER_SEPARATORS = (";", "\t", "|", ",")


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
