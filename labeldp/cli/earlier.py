"""What rows have spent on releases that are beside the output of `labeldp release`."""

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.support.validate import InputError

if TYPE_CHECKING:
    from labeldp.spending import Earlier

OTHERS = "if these are other persons, write to another folder"
NO_ROW = (
    "{} holds a release of column {}, and none of these rows by their names: if they are the same "
    "ones under other names, their true eps is larger than what is said"
)
NOTHING = (
    "--again adds to an earlier release of these rows in the folder of --out, and there is none "
    "(leave it out; or write to the folder where that release is, with its --row-id)"
)


@dataclass(frozen=True)
class Before:
    """What rows have spent on earlier releases.

    Attributes:
        eps: of each row, or of its person, by its place in the file; None: nothing.
        counted: names of these releases.
        identity: of one of them.
        releases: these releases.
    """

    eps: pd.Series | None = None
    counted: tuple[str, ...] = ()
    identity: str | None = None
    releases: "tuple[Earlier, ...]" = ()


def spent_before(
    ids: NDArray | None, persons: NDArray[np.int64] | None, given: argparse.Namespace
) -> Before:
    """Returns what the rows have spent on all releases of them that are beside the output.

    Raises:
        InputError: there is one, and --again is not given; or none, and it is; or one whose eps
            cannot be added, as its rows have other names or it counts for other persons.
    """
    from labeldp.spending import (
        UNSEEN,
        UNSURE,
        Spending,
        have_same_names,
        share_rows,
    )

    found = _beside(given)
    if not found:  # as most often; the names of many rows fill much memory
        if given.again:
            raise InputError(NOTHING)
        return Before()
    known = persons if ids is None else ids
    places = _places(found) if known is None else np.arange(len(known))
    ids = places if ids is None else ids
    for path, each in list(found.items()):  # of no known column: only if it has these rows
        are_same = have_same_names(each.manifest.row_id, given.row_id or "")
        if not each.manifest.source and not (are_same and share_rows(each, ids)):
            del found[path]
    same = [path for path in found if share_rows(found[path], ids)]
    for path in found:
        _check_names(path, found[path], path in same, ids, given)
    spending = Spending(list(found.values()), ids, persons)
    unseen = [str(path) for path in found if found[path].manifest.release in spending.unseen]
    if unseen and (given.again or not same):
        warnings.warn(UNSEEN.format(" and ".join(unseen)), stacklevel=1)
    if not same and given.again:
        raise InputError(NOTHING)
    if not same:
        for path in found:
            warnings.warn(NO_ROW.format(path, given.label), stacklevel=1)
        return Before()
    for path in same:
        unit = found[path].manifest.unit
        if unit and unit.column != given.unit:
            raise InputError(
                f"{path} {_holds(found[path], given)}, and counts what each "
                f"{unit.column} has spent, not each {given.unit or 'row'} (use it; or give --again "
                f"and --unit {unit.column})"
            )
    worst = max(same, key=lambda path: found[path].spent.max())
    if not given.again:
        # Rows that are counted have the same names in every file.
        others = "" if given.row_id else f"; or, {OTHERS}"
        raise InputError(
            f"{worst} {_holds(found[worst], given)}, eps={spending.eps.max():g} "
            f"(use it; or give --again, which adds eps={given.eps:g} to it{others})"
        )
    unsure = [str(path) for path in same if found[path].manifest.release in spending.unsure]
    if unsure:
        warnings.warn(UNSURE.format(" and ".join(unsure)), stacklevel=1)
    eps = pd.Series(spending.eps, places)
    known_now = tuple(found[path] for path in same)
    return Before(eps, spending.counted, found[worst].manifest.identity, known_now)


def _holds(earlier: "Earlier", given: argparse.Namespace) -> str:
    if earlier.manifest.source:
        return f"holds a release of column {given.label} already"
    return f"holds a release of these rows, maybe of column {given.label}, as it names none"


def _places(found: "dict[Path, Earlier]") -> NDArray[np.int64]:
    """Returns all rows of releases that counted them: how many the file has is not known yet."""
    ids = [each.row_ids for each in found.values() if each.row_ids.dtype.kind in "iu"]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *ids]).astype(np.int64))


def _beside(given: argparse.Namespace) -> "dict[Path, Earlier]":
    """Returns all releases beside the output that are of this column, or do not say of which."""
    from labeldp.file import holds_release, read_rows
    from labeldp.spending import Earlier

    files = [each for each in given.out.parent.iterdir() if each.suffix.lower() == ".parquet"]
    paths = [path for path in sorted(files) if holds_release(path)]
    read = {path: Earlier(*read_rows(path)) for path in paths}
    return {path: each for path, each in read.items() if each.manifest.source in (given.label, "")}


def _check_names(
    path: Path, earlier: "Earlier", is_shared: bool, ids: NDArray, given: argparse.Namespace
) -> None:
    """Refuses a release whose rows have other names than `ids`, so that eps could not be added."""
    from labeldp.manifest import GIVEN
    from labeldp.spending import have_same_names

    theirs = earlier.manifest.row_id
    are_same = have_same_names(theirs, given.row_id or "")
    if are_same is None:  # an older version wrote it; a release that counts has row 0
        is_number = earlier.row_ids.dtype.kind in "iu"
        is_counted = is_number and 0 in earlier.row_ids
        if given.row_id is None:
            are_same = is_counted
        else:
            are_same = is_shared or (is_number == (ids.dtype.kind in "iu") and not is_counted)
    if are_same:
        return
    remedy = "leave --row-id out" if theirs == "" else "give the same --row-id"
    if theirs and theirs != GIVEN:
        remedy = f"give --row-id {theirs}"
    raise InputError(
        f"{path} holds a release of column {given.label} whose rows have other names ({remedy}; "
        f"or, {OTHERS})"
    )
