"""Names of rows, persons and labels: which are allowed, and which spell the same name."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.support.validate import InputError

WHOLE = re.compile(r"^\+?(-?)0*([0-9]+)(?:\.0*)?$")
"""A whole number in any spelling: 7, +7, 007, 7.0."""
NUMBER = re.compile(r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$")
OWN_SPELLING = re.compile(r"^(?:[A-Za-z][!-~]*|[1-9][0-9]*)\Z")
"""A name that has no other spelling, as most have none."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Signs that a terminal takes for commands. Headers of many tables have tabs and line ends."""


def spellings(names: NDArray) -> NDArray:
    """Returns one text for all spellings of a name, so that 10, 10.0, 1e1 and '010' are equal.

    A file that was exported again may spell its names in another way, and the ledger must still
    know them. Where one table holds both 7 and 007, it counts too much rather than too little.
    """
    texts = np.asarray(names).astype(str).astype(object)
    if np.asarray(names).dtype.kind not in "iu":
        texts[:] = [
            text if OWN_SPELLING.match(text) else _spelling(text.strip()) for text in texts.tolist()
        ]
    return texts


def _spelling(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).strip()
    if match := WHOLE.match(text):
        return "".join(match.groups())
    if NUMBER.match(text) and math.isfinite(number := float(text)):
        return str(int(number)) if number.is_integer() else repr(number)
    return text


def check_texts(names: NDArray, what: str) -> None:
    """Refuses names that no text can hold: bytes, lists, half characters.

    Raises:
        InputError: there is one; `what` begins the message.
    """
    if names.dtype.kind in "iufb":
        return
    given = names.tolist()
    if any(issubclass(kind, bytes) or kind.__hash__ is None for kind in set(map(type, given))):
        raise InputError(
            f"{what} must be numbers or texts, got others, such as bytes (write them as texts)"
        )
    whole = "".join(map(str, given))
    if (sign := CONTROL.search(whole)) is not None:
        raise InputError(f"{what} must be texts without control signs, got one with {sign[0]!r}")
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} must be texts that UTF-8 can write, got one with half a character (read them "
            "in the encoding of their file)"
        ) from None


def first_missing(values: Sequence[Any] | NDArray) -> int | None:
    """Returns the first row whose value is missing; None: there is no such row."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubU":
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":  # times
        values = [None if missing else 0 for missing in np.isnat(values)]
    if set(map(type, values)) <= {str, int, bool}:  # at once
        return None
    return next((row for row, value in enumerate(values) if is_missing(value)), None)


def is_missing(value: Any) -> bool:
    """Returns whether a value is None, NaN, or what pandas has for a missing cell or time."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | Decimal | np.floating) and bool(value != value)


def label_texts(labels: Iterable[object]) -> list[str]:
    """Returns labels as `class_text` spells them, without blanks around."""
    values = list(labels)
    if set(map(type, values)) in ({str}, {int}):  # each class once; 0.0 == -0.0 are spelled apart
        texts = {value: class_text(value).strip() for value in {*values}}
        return [texts[value] for value in values]
    return [class_text(value).strip() for value in values]


def class_text(value: object) -> str:
    """Returns a class or label as all files spell it; a missing one is empty.

    >>> [class_text(each) for each in (1.0, "1.00", True)]
    ['1', '1.00', 'true']
    """
    if is_missing(value):
        return ""
    if isinstance(value, bool | np.bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"  # 1.00 is `1`, as of other numbers
    return str(value)


def as_list(labels: Any, what: str = "label") -> list[Any]:
    """Returns labels as Python values; arrays, pandas and polars columns are taken.

    Args:
        labels: N of them.
        what: one of them is, for messages.

    Raises:
        InputError: no sequence, or one with a missing value; says its row.
    """
    if isinstance(labels, str | bytes) or not is_flat(labels):
        raise InputError(
            f"{what}s must be a sequence or array of N {what}s, got {type(labels).__name__} (of a "
            "table, give one column)"
        )
    plain = without_mask(labels) if isinstance(labels, np.ma.MaskedArray) else labels
    values = np.asarray(plain, dtype=object).tolist()
    if not set(map(type, values)) <= {str, int, float, bool}:
        values = [as_python(value) for value in values]
    if (row := first_missing(values)) is not None:
        remedy = "leave the row out" + (", or name a class" if what == "label" else "")
        raise InputError(f"row {row}: the {what} is missing ({remedy})")
    return values


def places_of(values: list[Any], names: Sequence[Any], what: str = "label") -> NDArray[np.int64]:
    """Returns the position of each label among the names, int64 (N,).

    Args:
        values: labels.
        names: of all classes.
        what: a label is, for messages.

    Raises:
        InputError: a label that is none of them; says its row, not the label, which is secret.
    """
    place = {name: number for number, name in enumerate(names)}
    found = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        try:
            found[row] = place.get(value, -1)
        except TypeError:  # a list, such as no class is
            found[row] = -1
        if found[row] < 0:  # no KeyError, which would go along with the label in it
            listed = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            kind = "classes" if what == "label" else f"{what}s"
            raise InputError(
                f"row {row}: the {what} is none of the {kind} {listed} (it is not shown, as labels "
                f"are secret; 1 is not '1'; add it to the {kind}, or leave the row out)"
            )
    return found


def class_key(name: str | float) -> tuple[bool, str | float]:
    """Returns the key that sorts class names as scikit-learn does.

    Numbers come before texts where there are both, which scikit-learn does not sort.

    >>> sorted(["no", 10, "a", 2.5, True], key=class_key)
    [True, 2.5, 10, 'a', 'no']
    """
    return isinstance(name, str), name


def is_flat(values: Any) -> bool:
    """Returns whether values are a sequence or array of one dimension."""
    try:
        return (values if hasattr(values, "ndim") else np.asarray(values)).ndim == 1
    except ValueError:  # lists of several lengths
        return False


def without_mask(values: Any) -> NDArray:
    """Returns values as an array; what a mask hides is None."""
    if isinstance(values, np.ma.MaskedArray):
        plain = np.array(values.data, dtype=object)
        plain[np.ma.getmaskarray(values)] = None
        return plain
    return np.asarray(values)


def as_python(value: Any) -> Any:
    """Returns a scalar of NumPy or torch as Python's, and anything else as it is.

    Grids are of such scalars, and data loaders give labels as tensors without a dimension.
    """
    return value.item() if getattr(value, "shape", None) == () else value


def checked_row_ids(row_ids: ArrayLike | None, size: int) -> NDArray:
    """Returns `row_ids` as an array of numbers or texts, (N,); None counts from 0.

    Raises:
        InputError: their number is wrong, one is missing, or one is there twice.
    """
    if row_ids is None:
        return np.arange(size)
    if not is_flat(row_ids):
        raise InputError("row ids must be a sequence or array, one for each label")
    values = without_mask(row_ids)
    if len(values) != size:
        raise InputError(f"there must be a row id for each of {size} labels, got {len(values)}")
    if (row := first_missing(values)) is not None:
        raise InputError(f"row {row}: the row id is missing (name each row)")
    check_texts(values, "row ids")
    values = values.copy() if values.dtype.kind in "iu" else values.astype(str)
    ids = values.tolist()  # as they are kept: 7 and '7' are one text
    if len(set(ids)) < len(ids):
        twice = next(name for name, count in Counter(ids).items() if count > 1)
        raise InputError(
            f"row ids must be distinct, got {twice!r} twice (a person with several rows is named "
            "by persons=)"
        )
    return values


def check_index(name: str, index: Any, expected: Any, whose: str, value: str) -> None:
    """Refuses an index that names other rows than the one expected, or in another order.

    Whole numbers may count rows, and say nothing unless one is another order of the other.

    Args:
        name: of the argument that has the index.
        index: of pandas, (N,).
        expected: likewise, (N,).
        whose: the one expected is, for the message.
        value: how Python names the one expected.
    """
    here, there = (each.to_flat_index().astype(str) for each in (index, expected))
    differ = np.flatnonzero(here != there)
    if not len(differ):
        return
    row = int(differ[0])
    found = f"row {row} is {here[row]} in {name} and {there[row]} in {whose}"
    # Whole numbers may be places: those of a part of a table begin anywhere.
    are_places = any(each.dtype.kind in "iu" for each in (index, expected))
    if here.is_unique and here.isin(there).all():
        raise InputError(
            f"{name} has its rows in another order than {whose}: {found} (take "
            f"{name}.loc[{value}]; or, if row for row they belong together and the index "
            f"means nothing, {name}.reset_index(drop=True))"
        )
    if not are_places:
        raise InputError(
            f"{name} has other rows than {whose}: {found} (take the rows that both have; or, if "
            f"row for row they belong together, {name}.reset_index(drop=True))"
        )


def check_columns(**names: object) -> None:
    """Refuses names of columns that are no texts."""
    for key, name in names.items():
        if not isinstance(name, str):
            raise InputError(f"{key} must be a text, the name of a column, got {name!r}")


def checked_persons(persons: ArrayLike, size: int, what: str = "persons") -> NDArray:
    """Returns the name of each row's person, one spelling for each person, texts (N,).

    Args:
        persons: (N,), who each row belongs to.
        size: N.
        what: the argument that they came in, for messages.

    Raises:
        InputError: not a person for each row.
    """
    if not is_flat(persons):
        raise InputError(f"{what} must be a sequence or array, a person for each label")
    names = without_mask(persons)
    if len(names) != size:
        raise InputError(f"{what} must name a person for each of {size} labels, got {len(names)}")
    check_texts(names, what)
    if (row := first_missing(names)) is not None:
        raise InputError(f"{what}: row {row} names no person")
    return spellings(names)


def numbered(persons: ArrayLike, size: int) -> NDArray[np.int64]:
    """Returns each row's person, numbered from 0 as they come, int64 (N,)."""
    number: dict[str, int] = {}
    names = checked_persons(persons, size).tolist()
    return np.array([number.setdefault(name, len(number)) for name in names], np.int64)


def printable(text: object) -> str:
    """Returns a text in which a terminal finds no command, such as the escape sign."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in str(text))
