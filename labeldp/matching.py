"""Rows of a file of features that belong to those of a release, by their ids or by position."""

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from labeldp.estimates import check_classes_released, unbiased_labels
from labeldp.io.labels import codes_of
from labeldp.io.tables import TableFile
from labeldp.manifest import GIVEN_IN_PYTHON
from labeldp.metrics import ScoredRows, no_probabilities, scored_rows
from labeldp.models import columns_of, numbers_of, unknown_categories
from labeldp.names import class_text
from labeldp.release import Release
from labeldp.rows import refuse_fitted_rows
from labeldp.support.validate import InputError, did_you_mean


class MatchedRows(NamedTuple):
    """Rows that a file and a release both have.

    Attributes:
        release: of N rows.
        table: their features, N rows, indexed by row id.
        persons: (N,), whose row each is; None: all persons have one row, or they are not known.
        note: how rows were matched and how many are left out, in words.
    """

    release: Release
    table: pd.DataFrame
    persons: NDArray | None
    note: str


ROUNDING = 5e-4
"""By which a probability with three decimals may be off, as tools write it."""


def rows_for_fit(
    file: TableFile,
    release: Release,
    path: Path,
    row_id: str | None,
    *,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
) -> MatchedRows:
    """Returns the rows that a model is to learn from.

    Args:
        file: of features.
        release: of classes.
        path: of the release, for messages.
        row_id: the column that names rows; None: they are matched by position.
        drop: columns that are no features.
        keep: columns that are features though they look like the index of a table.

    Raises:
        InputError: the file has the column that the release keeps secret, or no feature; rows do
            not fit to each other.
    """
    _check_row_id(release, path, row_id, drops=True)
    given_id = () if row_id is None else (row_id,)
    for option, names in (("--row-id", given_id), ("--drop", drop), ("--keep", keep)):
        for name in names:
            file.check_column(option, name)
    theirs = release.manifest.row_id
    if row_id is not None and theirs in set(file.names) - {row_id, *drop}:
        raise InputError(
            f"the rows of {path} are named by the column {theirs}, got --row-id {row_id} (give "
            f"--row-id {theirs}; or, if they are named by {row_id} here, --drop {theirs})"
        )
    unit, secret = release.manifest.unit, release.manifest.source
    if unit is not None and unit.column in keep:
        raise InputError(
            f"--keep={unit.column} says whose row it is, says {path}, and is no feature (leave it "
            "out)"
        )
    left_out = {*drop, row_id, None if unit is None else unit.column}
    if secret in set(file.names) - left_out:
        raise InputError(
            f"{file.path} has the column {secret}, which is what the release keeps secret (hand "
            f"over features without it, or give --drop {secret})"
        )
    table = file.features(drop={name for name in left_out if name is not None}, keep=keep)
    if not len(table.columns):
        raise InputError(f"{file.path} has no feature left")
    return _matched(file, table, release, path, row_id)


def rows_held_out(
    file: TableFile, release: Release, path: Path, row_id: str | None, model: Pipeline
) -> tuple[MatchedRows, ScoredRows]:
    """Returns rows that a model was not fitted to, and its probabilities for them.

    Other arguments are as of `rows_for_fit`.

    Raises:
        InputError: rows were used in the fit, or do not fit to each other.
    """
    check_classes_released(release)
    if model[-1].classes_.tolist() != release.classes:
        raise InputError(f"the model has other classes than {path}")
    _check_row_id(release, path, row_id)
    rows = _matched(file, features_for(model, file), release, path, row_id)
    try:
        refuse_fitted_rows(model, rows.release)
    except InputError as error:  # whose remedy is for Python
        what = str(error).partition(" (")[0]
        raise InputError(f"{what} (fit to a part of the rows, evaluate on the others)") from None
    scores = probabilities_of(model, rows.table, file.path)
    return rows, scored_rows(rows.release, scores)


def rows_predicted(
    file: TableFile, release: Release, path: Path, row_id: str | None
) -> tuple[MatchedRows, ScoredRows]:
    """Returns rows for which a file has predictions, by any tool, and these predictions.

    The file has a column `predicted`, the name of a class, or the probability p_NAME of each class
    NAME, or both, where `predicted` need not be the most likely class. Arguments are as of
    `rows_for_fit`.

    Raises:
        InputError: a class or a column that the release does not know, a missing column or cell,
            probabilities that do not sum to 1; rows do not fit to each other.
    """
    check_classes_released(release)
    _check_row_id(release, path, row_id)
    names, unit = [class_text(name) for name in release.classes], release.manifest.unit
    others = {row_id, None if unit is None else unit.column}
    columns, given = [f"p_{name}" for name in names], pd.DataFrame()
    found = [name for name in file.names if name.startswith("p_") and name not in others]
    listed = ", ".join(columns[:10]) + ", ..." * (len(names) > 10)
    for name in sorted({*found} ^ {*columns}) if found else ():
        has, hint = ("has", did_you_mean(name, columns)) if name in found else ("lacks", "")
        raise InputError(
            f"{file.path} {has} the column {name}, and must have the probability of each class of "
            f"{path}, {listed}, and no other column p_...{hint}"
        )
    if found:
        given = file.features(names=columns, numbers=columns, advice=", as probabilities are")
        scores = given.to_numpy()
        for row, place in np.argwhere(np.isnan(scores))[:1]:
            raise InputError(
                f"{file.path}, row {row + 1}, column {columns[place]}: there is no probability "
                "(predict each row)"
            )
        sums = scores.sum(1, keepdims=True)
        rounded = np.abs(sums - 1) <= min(len(names) * ROUNDING, 20 * ROUNDING)
        given[columns] = scores = np.where(rounded, scores / np.where(rounded, sums, 1), scores)
        if wrong := no_probabilities(scores):
            raise InputError(f"{file.path}, row {wrong[0] + 1}, columns {listed}: it {wrong[1]}")
        given["predicted"] = scores.argmax(1)
    if "predicted" in file.names:
        labels = file.read_labels("predicted")
        places = [codes_of(each, pd.Index(names)) for each in labels.chunks]
        given["predicted"] = np.concatenate(places)
        for row in np.flatnonzero(given["predicted"] < 0)[:1]:
            cell = class_text(labels[int(row)].as_py())
            raise InputError(
                f"{file.path}, row {row + 1}, column predicted: {cell!r} is no class of {path}"
                f"{did_you_mean(cell, names)}; classes: {', '.join(names[:10])}"
            )
    if not len(given):
        raise InputError(
            f"{file.path} has no predictions: no column predicted, and none of {listed} (a file "
            "of features needs --model)"
        )
    rows = _matched(file, given, release, path, row_id)
    own, chosen = rows.release, rows.table["predicted"].to_numpy()
    return rows, ScoredRows(
        own, unbiased_labels(own), rows.table[columns].to_numpy() if found else None, chosen
    )


def features_for(model: Pipeline, file: TableFile) -> pd.DataFrame:
    """Returns the columns that a fitted model needs.

    Raises:
        InputError: the file lacks one, or it holds something else than in the fit.
    """
    columns, numbers = columns_of(model), numbers_of(model)
    for name in columns:
        if name not in file.names:
            raise InputError(f"{file.path} has no column {name}, which the model needs"
                             f"{did_you_mean(name, file.names)}")  # fmt: skip
    return file.features(
        names=columns,
        numbers=numbers,
        # Of few rows a category may look like a number, or a truth value.
        categories=set(columns) - set(numbers),
        advice=", which the model needs",
    )


def probabilities_of(model: Pipeline, table: pd.DataFrame, path: Path) -> NDArray[np.float64]:
    """Returns class probabilities, (N, K); warns of categories that no row of the fit had.

    The table is what `features_for` returns.

    Raises:
        InputError: a number overflows.
    """
    for name, (cells, counts_as) in unknown_categories(model, table).items():
        warnings.warn(
            f"{path}, column {name}: {len(cells):,} of {len(table):,} rows have a category that "
            f"no row of the fit had, such as {cells.iloc[0]!r} in row {cells.index[0] + 1}: it "
            f"counts as {counts_as}",
            stacklevel=1,
        )
    # Warnings of unknown categories name no column; numbers that overflow are an error below.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        try:
            found = np.asarray(model.predict_proba(table))
        except InputError:
            raise
        except ValueError:  # of scikit-learn
            found = np.array(np.nan)
    if not np.isfinite(found).all():
        raise InputError(f"{path} cannot be predicted: the model's numbers overflow (fit again)")
    return found


def _check_row_id(release: Release, path: Path, row_id: str | None, *, drops: bool = False) -> None:
    """Refuses rows that are named another way than the release's: they would be mixed up unseen.

    A column may have another name here, and that of a release from Python is not known. `drops`:
    whether the command has --drop.
    """
    theirs = release.manifest.row_id
    are_places = pd.api.types.is_integer_dtype(release.row_ids.dtype)
    if row_id is None and (theirs or not are_places):
        if theirs in (None, GIVEN_IN_PYTHON):
            raise InputError(
                f"the rows of {path} have names (give --row-id COLUMN, which holds these names)"
            )
        raise InputError(
            f"the rows of {path} are named by the column {theirs} (give --row-id {theirs})"
        )
    if theirs == "" and row_id is not None:
        raise InputError(
            f"the rows of {path} are counted from 0, in the order of the file that was released "
            "(leave --row-id out" + f"; --drop {row_id} leaves that column out too" * drops + ")"
        )


def _matched(
    file: TableFile, table: pd.DataFrame, release: Release, path: Path, row_id: str | None
) -> MatchedRows:
    """Returns the rows of all of the file's features that are in the release."""
    if row_id is None:
        places, note = _by_position(file, len(table), release, path)
    else:
        places, note = _by_id(file, len(table), release, path, row_id)
    here = places >= 0
    release = release if here.all() else release[here]
    places, unit, persons = places[here], release.manifest.unit, None
    if unit is not None and unit.most_rows > 1:
        if unit.column in file.names:
            persons = file.read_names("unit", unit.column)[places]
            note += f"; those of one {unit.column} count together"
        else:
            note += f"; without a column {unit.column}, intervals are too narrow"
    return MatchedRows(release, table.iloc[places].set_axis(release.row_ids), persons, note)


def _by_position(
    file: TableFile, size: int, release: Release, path: Path
) -> tuple[NDArray[np.int64], str]:
    """Returns the position of each row of the release, which counts them, in the table."""
    wanted, whole = release.row_ids.astype(np.int64), release.manifest.num_rows
    is_start = np.array_equal(wanted, np.arange(len(wanted)))
    if whole is None:  # an older version did not say
        is_same = size > int(wanted.max(initial=-1)) and not (is_start and len(wanted) != size)
    else:
        is_same = size == whole or (is_start and len(wanted) == size)
    if not is_same:
        raise InputError(
            f"{file.path} has {size:,} rows, and {path} is of {whole or len(wanted):,}: without "
            "ids they are matched by position, and must be the same (--row-id names rows)"
        )
    note, rest = "rows are matched by position", size - len(wanted)
    return wanted, note + f": {len(wanted):,}; left out are {rest:,} of {file.path}" * (rest > 0)


def _by_id(
    file: TableFile, size: int, release: Release, path: Path, row_id: str
) -> tuple[NDArray[np.int64], str]:
    """Returns the position of each row of the release in the table; -1: it is not there."""
    ids = file.read_names("--row-id", row_id, are_distinct=True)
    theirs = [name.strip() for name in release.row_ids.astype(str)]  # of older versions
    places = pd.Index(ids.astype(str)).get_indexer(theirs)
    shared, note = int((places >= 0).sum()), f"rows are matched by {row_id}"
    if not shared:
        raise InputError(
            f"{file.path} has none of the rows of {path} (does --row-id name the same ids?)"
        )
    if shared < max(len(release), size):
        note += (
            f": {shared:,}; left out are {len(release) - shared:,} of {path} and "
            f"{size - shared:,} of {file.path}"
        )
    return places, note
