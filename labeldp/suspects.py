"""Columns that look as if they should not be there: names of rows or persons, copies of the label.

What is found is a guess, which a command prints as a note; nothing is refused.
"""

import contextlib
import re
from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.io.labels import numbers_of
from labeldp.io.tables import TableFile
from labeldp.names import class_text
from labeldp.release import Release
from labeldp.support.validate import InputError

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
ID_WORDS = {"id", "ids", "uid", "uuid", "guid"}
"""Last words in names of columns of ids."""
PERSON_WORDS = {
    "account", "client", "customer", "email", "employee", "household", "member", "participant",
    "patient", "person", "phone", "respondent", "student", "subject", "user", "username",
}  # fmt: skip
"""Last words in names of columns that name persons."""
FIRST_ROWS = 10_000
"""Rows in which copies of the label, and values that name persons, are looked for."""
FEWEST_PERSONS, MOST_ROWS, FEW_ROWS = 20, 20, 5
"""Number of different values from which on a column may name persons, and the mean number of rows
of each up to which it may; where no value has a digit, which words of a survey have not either."""
LONG_CODE, MOST_OF_A_SCALE = 5, 120
"""Digits from which on numbers of one length look like codes, and how many whole numbers from 0 or
1 on an age or a percentage has at most."""
NOT_A_CODE = r"[0-9][-/.:,][0-9]"
"""What dates, times and decimals have in common."""
FEWEST_ROWS = 20
"""Rows below which two columns may agree by chance."""
NUMBER_BINS = 20
"""Number of bins of a numeric column, when it is tried as a predictor of the label."""
MISSING_CODES = np.array(
    [-9.0]
    + [nines * sign for nines in (99.0, 999.0, 9999.0, 99999.0, 999999.0) for sign in (-1, 1)]
    + [-(2.0**bits) for bits in (15, 31, 63)]
    + [2.0**bits - 1 for bits in (15, 16, 31, 32, 63)]
)
"""Numbers that stand for a missing value in many files."""
SUSPECT_ACCURACY, LOWEST_ACCURACY = 0.97, 0.85
"""Accuracy of a single column from which it is suspected to be known only with the label, and the
lower end that its interval must exceed."""


def looks_like_names(column: str) -> bool:
    """Returns whether a column's name says that it names rows or persons.

    >>> [looks_like_names(each) for each in ("patient_id", "userID", "client_age", "paid")]
    [True, True, False, False]
    """
    words = [word.lower() for word in WORD.findall(column)]
    return bool(words) and words[-1] in ID_WORDS | PERSON_WORDS


def missing_code(values: NDArray[np.float64]) -> tuple[float, int] | None:
    """Returns a number that looks like a code for a missing value, and how often it is there.

    Such as -999: it is there twice at least, and lies further from all other numbers than these
    from each other, or is the only one below 0.

    >>> missing_code(np.array([31.0, 58.0, 999.0, 44.0, 999.0]))
    (999.0, 2)
    >>> missing_code(np.array([850.0, 940.0, 999.0, 999.0]))
    """
    rest = values[np.isfinite(values) & ~np.isin(values, MISSING_CODES)]
    if not len(rest):
        return None
    low, high = float(rest.min()), float(rest.max())
    for code in MISSING_CODES.tolist():
        count = int((values == code).sum())
        is_far = max(low - code, code - high) > high - low or code < 0 <= low
        if count > 1 and is_far:
            return code, count
    return None


def codes_in(features: pd.DataFrame) -> Iterator[tuple[str, float, int]]:
    """Yields the columns with a number that looks like a code for a missing value, and how often.

    See `missing_code`.
    """
    for name in features.select_dtypes(np.number):
        if (found := missing_code(features[name].to_numpy())) is not None:
            yield name, *found


def suspects_of_release(
    table: TableFile,
    label: str,
    row_id: str | None,
    unit: str | None,
    eps: float,
    *,
    of_numbers: bool = False,
) -> Iterator[str]:
    """Yields what to say of columns of a file whose label is to be released.

    Args:
        table: the file; a column whose name looks like names must fit into memory.
        label: the secret column.
        row_id: the column that names rows; None: they are counted.
        unit: the column that says whose row it is; None: every row is a person of its own.
        eps: of one label.
        of_numbers: whether the labels are numbers.
    """
    if of_numbers and missing_code(numbers_of(next(table.batches(label, FIRST_ROWS)))) is not None:
        yield (
            f"column {label} has a number, far from its others, that looks like a code for a "
            "missing value, and is released like a number (leave such rows out of the file)"
        )
    try:
        head = table.head(FIRST_ROWS)
    except InputError:  # a column of a strange type, which need not be read
        head = pd.DataFrame({label: []})
    for name in _copies(head, label):
        yield (
            f"column {name} has one value for each value of {label}: it gives the labels away "
            f"(keep it as secret as {label})"
        )
    for name in table.names:
        if name in (label, row_id, unit):
            continue
        with contextlib.suppress(InputError, pa.ArrowInvalid):  # values that name nothing
            is_told = name in head and unit is None and _looks_like_persons(head[name])
            if not is_told and not looks_like_names(name):
                continue
            counts = pc.value_counts(pa.chunked_array(table.batches(name)))
            rows = counts.field("counts").to_numpy()
            most = rows.max(initial=0)
            if most > 1 and unit is None:
                yield (
                    f"column {name} has {len(rows):,} different values, {(rows > 1).sum():,} of "
                    f"them in several rows, at most {most:,}: if they are persons, one of them "
                    f"spends eps={eps * most:g} in total (--unit {name} shares eps={eps:g} among "
                    "the rows of a person)"
                )
            elif most == 1 and row_id is None:
                yield (
                    f"column {name} has another value in each row (--row-id {name} lets `fit` find "
                    "rows by it; without, files must keep the order of their rows)"
                )


def _copies(head: pd.DataFrame, label: str) -> list[str]:
    """Returns the columns that say the same as the label, perhaps in other words.

    In the first rows of the file, and only where that is no chance.
    """
    codes, of_label = _codes(head[label])
    if len(head) < FEWEST_ROWS or not 2 <= of_label <= len(head) / 2:
        return []
    found = []
    for name in head:
        own, count = _codes(head[name])
        if name != label and count == of_label:
            pairs = len(np.unique(codes * count + own))
            found += [name] if pairs == count else []
    return found


def _looks_like_persons(column: pd.Series) -> bool:
    """Returns whether the values of the first rows look like names of persons with several rows.

    That is many different texts, or whole numbers that nothing is learnt from: all of one length,
    counted from 0 or 1 on, with equally many rows each, or with all their rows together.
    """
    cells = column.dropna().astype(str).str.strip()
    codes, names = pd.factorize(cells[cells != ""])
    count, each = len(names), len(codes) / max(1, len(names))
    if count < FEWEST_PERSONS or not 1 < each <= MOST_ROWS:
        return False
    texts = pd.Series(names)
    numbers = pd.to_numeric(texts, errors="coerce")
    if numbers.isna().all():
        has_digits = bool(texts.str.contains("[0-9]").mean() > 0.9)
        is_plain = not texts.str.contains(NOT_A_CODE).any()
        return is_plain and (has_digits or 1.5 < each <= FEW_ROWS)
    if not (numbers % 1 == 0).all() or (numbers < 0).any():
        return False
    rows = np.bincount(codes)
    lengths = texts.str.len()
    is_code = LONG_CODE <= lengths.min() == lengths.max()
    is_counted = numbers.min() <= 1 and MOST_OF_A_SCALE < count > 0.9 * numbers.max()
    is_even = each >= 2 and rows.var() < each / 4  # of a feature it is about `each`
    are_together = int((np.diff(codes) != 0).sum()) + 1 == count
    return bool(is_code or is_counted or is_even or are_together)


def _codes(values: pd.Series) -> tuple[NDArray[np.int64], int]:
    """Returns which of its different values each cell has, and how many there are."""
    codes, names = pd.factorize(values.astype(str))
    return codes.astype(np.int64), len(names)


def suspects_of_fit(
    features: pd.DataFrame, release: Release, keep: Collection[str]
) -> Iterator[str]:
    """Yields what to say of features that a model is to learn from.

    Args:
        features: of the rows of the release, in its order.
        release: of classes.
        keep: names of columns that the user says are features.
    """
    from labeldp.estimates import unbiased_labels  # a second, which `release` need not wait for

    for name in features:
        if name not in keep and looks_like_names(name):
            yield (
                f"column {name} looks like names of rows or persons, of which a model learns "
                f"nothing for others (--drop {name} leaves it out, --keep {name} says that it is a "
                "feature)"
            )
    written = {"predicted"} | {f"p_{class_text(each)}" for each in release.classes}
    for name in sorted(written.intersection(features) - set(keep)):
        yield (
            f"column {name} has a name as `labeldp predict` writes it: if it was learnt from these "
            f"releases, the accuracy below is not one on new rows (--drop {name}; --keep {name} "
            "says that it is a feature)"
        )
    for name, code, count in codes_in(features.drop(columns=list(keep), errors="ignore")):
        yield (
            f"column {name} has {code:.0f} in {count:,} rows, far from its other numbers: if it "
            "stands for a missing value, leave those cells empty, and fit again (--keep "
            f"{name} says that it is a number)"
        )
    labels = unbiased_labels(release)
    for name in features:
        if name in keep or (share := _accuracy_alone(features[name], labels)) is None:
            continue
        yield (
            f"column {name} alone gives the label of about {share:.0%} of the rows: is it known "
            f"before the label is? (if not: --drop {name}; --keep {name} says that it is)"
        )


def _accuracy_alone(values: pd.Series, labels: NDArray[np.float64]) -> float | None:
    """Returns the accuracy of the label predicted from one column, if it is high and not by chance.

    The class of each value is chosen on every other row, and tried on the rest.
    """
    codes, names = pd.factorize(values)
    if pd.api.types.is_numeric_dtype(values) and len(names) > NUMBER_BINS:
        numbers = values.to_numpy(np.float64)
        names = np.unique(np.nanquantile(numbers, np.linspace(0, 1, NUMBER_BINS + 1)))[1:]
        codes = np.where(np.isnan(numbers), -1, np.searchsorted(names[:-1], numbers))
    fitted, tried = slice(0, None, 2), slice(1, None, 2)
    if not 2 <= len(names) <= len(values) / 10:
        return None
    votes = np.zeros((len(names) + 1, labels.shape[1]))
    np.add.at(votes, codes[fitted], labels[fitted])  # code -1, a missing one, is the last row
    own = votes.argmax(1)[codes[tried]]
    usual = int(labels[fitted].mean(0).argmax())
    hits = labels[tried][np.arange(len(own)), own]
    more = hits - labels[tried][:, usual]
    share, gain = float(hits.mean()), float(more.mean())
    error = float(np.std(hits)) / np.sqrt(len(hits))
    error_of_gain = float(np.std(more)) / np.sqrt(len(more))
    is_sure = share - 2 * error > LOWEST_ACCURACY and gain > 3 * error_of_gain
    return min(share, 1.0) if share + error >= SUSPECT_ACCURACY and is_sure else None
