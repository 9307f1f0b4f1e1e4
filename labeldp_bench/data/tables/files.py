"""A CSV or Parquet file as a frame; what is wrong with it in one line."""

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from labeldp_bench.support.validate import InputError, did_you_mean

READERS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def read_table(path: Path, texts: str | None = None, what: str = "dataset.file: ") -> pd.DataFrame:
    """Returns the table of a file; every column has a name of its own.

    Args:
        path: of the file.
        texts: a column that is read as texts, as they are written; a missing one is empty.
        what: what messages about the path begin with.

    Raises:
        InputError: no such file, another kind of file, one that cannot be read, no row.
    """
    name = check_name(path, what)
    with readable(path):
        check_header(path)
        if name.endswith(".parquet"):
            table = pd.read_parquet(path, partitioning=None)  # folders such as a=1 are no columns
        else:
            separator = separator_of(path)
            table = pd.read_csv(path, sep=separator, low_memory=False)
            if texts in table.columns:
                written = {"dtype": str, "keep_default_na": False, "usecols": [texts]}
                table[texts] = pd.read_csv(path, sep=separator, **written)[texts]
    if not len(table):
        raise InputError(f"{path.name} has no rows")
    table = table.rename(columns=str)
    if texts in table.columns:
        table[texts] = label_texts(table[texts])
    return table


def check_name(path: Path, what: str) -> str:
    """Returns the name of a file, in small letters, if it is of a kind that is read, and there."""
    name = path.name.lower()
    if not name.endswith(READERS):
        raise InputError(f"{what}{path} must end in {', '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"{what}there is no file {path}")
    return name


def check_header(path: Path) -> None:
    """Refuses a table with two columns of one name: nobody could say which of them is meant.

    Columns without a name are allowed.
    """
    if path.name.lower().endswith(".parquet"):
        names = pq.read_schema(path).names
    else:  # pandas would call the second one name.1
        written = {"sep": separator_of(path), "dtype": str, "keep_default_na": False}
        names = pd.read_csv(path, header=None, nrows=1, **written).iloc[0].tolist()
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(f"{path} has two columns {name} (give each a name of its own)")


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
        said = " ".join(str(error).split())
        raise InputError(f"{path.name} cannot be read as a table: {said}") from None


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
    """Returns labels as texts: 1.0 is `1`, true is `true`, a missing one is empty."""
    return [_text(value) for value in column.tolist()]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.15g}"
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
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = np.flatnonzero(numbers.isna() & table[name].notna())
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"{file}, row {row + 1}, column {name}: {table[name].iloc[row]!r} is not a number"
                + advice.format(name=name)
            )
        read[name] = numbers
    return read


def check_finite(
    file: str, columns: pd.DataFrame, advice: str = "leave it out: dataset.drop=[{name}]"
) -> None:
    """Refuses infinite numbers, and texts that are nearly all different; see `check_numbers`."""
    for name in columns:
        column = columns[name]
        if pd.api.types.is_numeric_dtype(column):
            infinite = np.flatnonzero(np.isinf(column.to_numpy(np.float64, na_value=np.nan)))
            if len(infinite):
                row = int(infinite[0])
                raise InputError(f"{file}, row {row + 1}, column {name}: the number is infinite")
        elif len(column) >= 100 and (different := column.nunique()) > len(column) / 2:
            raise InputError(
                f"{file}: column {name} has {different} different texts in {len(column)} rows, "
                f"which is no category ({advice.format(name=name)})"
            )
