"""What a column of a frame holds: labels, numbers, categories; what is wrong in one line."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.support.validate import InputError

LARGEST = 1e150
"""Number of a column: a column is scaled by its variance, and that of larger ones overflows."""


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


def label_texts(labels: pd.Series | Sequence[object]) -> list[str]:
    """Returns labels as texts: 1.0 and 1.00 are `1`, true is `true`, a missing one is empty."""
    return [_text(value) for value in pd.Series(labels, dtype=object).tolist()]


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
