"""Persons with several rows: how many rows of each are released, so that eps covers the person."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from labeldp.manifest import Unit
from labeldp.recipe import is_flat
from labeldp.spending import check_names, names_of
from labeldp.support.validate import InputError, check_integer


def capped(
    persons: ArrayLike, most_rows: int | None, size: int, column: str
) -> tuple[Unit, NDArray[np.int64], NDArray[np.int64]]:
    """Returns the unit, the positions of the rows that are released, and each row's person.

    Positions rise, int64 (n,); persons are numbered from 0, int64 (N,).

    The labels of one person may all change at once, and eps adds up over them (group privacy). So
    each of at most `most_rows` rows gets eps / most_rows. Rows beyond that are left out, the later
    ones of a person; the choice looks at persons only, which are public, never at labels. Persons
    are known by their names as row ids are: `Ann` and `Ann ` are one, and so are 7 and 007.

    Args:
        persons: (N,), who each row belongs to.
        most_rows: >= 1; None: the largest number of rows that a person has.
        size: N.
        column: what names the person.
    """
    who = pd.Series(numbered(persons, size, "unit", column))
    before = who.groupby(who).cumcount().to_numpy()
    most = most_rows if most_rows is not None else int(before.max(initial=0)) + 1
    check_integer("most_rows", most, low=1)
    return Unit(column, most), np.flatnonzero(before < most), who.to_numpy()


def numbered(
    persons: ArrayLike, size: int, what: str = "persons", column: str = "persons"
) -> NDArray[np.int64]:
    """Returns each row's person, numbered from 0 as they come, int64 (N,); see `capped`.

    Args:
        persons: (N,), who each row belongs to.
        size: N.
        what: the argument that they came in, for messages.
        column: what names the person, for messages.

    Raises:
        InputError: not a person for each row.
    """
    if not is_flat(persons):
        raise InputError(f"{what} must be a sequence or array, a person for each label")
    names = np.asarray(persons)
    if len(names) != size:
        raise InputError(f"{what} must name a person for each of {size} labels, got {len(names)}")
    check_names(names, f"{column}: persons")
    who = pd.Series(names)
    if who.isna().any():
        row = int(np.flatnonzero(who.isna())[0])
        raise InputError(f"{what}: row {row} names no person")
    return pd.factorize(names_of(who.to_numpy()))[0].astype(np.int64)
