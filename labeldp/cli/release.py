r"""Release one column of labels, each with its own noise, once.

Example:
  labeldp release survey.csv --label answer --classes yes,no,refused --eps 1 \
      --out survey.release.parquet

RELEASE.parquet holds row ids, what was released, and how that was made; no true label and no seed.
Hand it over with the other columns. Release a column once: a second release adds its eps to the
first. FILE may be larger than memory; only the columns of --row-id and --unit must fit into it.
"""

import argparse
import contextlib
import math
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.cli.arguments import check_new, names, number, two_numbers
from labeldp.cli.earlier import spent_before
from labeldp.cli.people import row_ids_in
from labeldp.support.validate import InputError, check_choice, check_eps, check_integer

if TYPE_CHECKING:
    from labeldp.io.batches import TableFile

LOCK = "labeldp"
"""Names the lock of a folder, `.labeldp.lock`, which is there while labels are released into it."""
BETWEEN = re.compile(r"[\s;:|,]+")
"""What may stand between the cells of a row."""
THERE = "use it, or choose another name; what a release has spent is spent, also if it is deleted"
"""What is said of an output that is there: deleting it would hide its eps from the next release."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="CSV, TSV or Parquet, with a header"
    )
    parser.add_argument("--label", required=True, metavar="COLUMN", help="the secret column")
    parser.add_argument(
        "--classes", type=names, metavar="A,B,C",
        help="all values that a label may have, spelled as in the file (Parquet's truth values: "
        "true,false; a value with a comma stands in quotes: '\"no, never\",yes'); they are not "
        "taken from the file, since those that occur would tell of rare answers",
    )  # fmt: skip
    parser.add_argument("--bounds", type=two_numbers, metavar="LOW,HIGH",
                        help="for a column of numbers, in place of --classes; a number "
                        "outside counts as the nearer end")  # fmt: skip
    parser.add_argument("--eps", type=number, required=True,
                        help="privacy budget, at least 1e-5; smaller is more private")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="RELEASE.parquet",
                        help="the file to write")  # fmt: skip
    parser.add_argument(
        "--mechanism",
        default="auto",
        metavar="NAME",
        help="default: what `labeldp plan` recommends (rr for two classes)",
    )
    parser.add_argument(
        "--row-id",
        metavar="COLUMN",
        help="a column that names each row; default: rows are counted from 0",
    )
    parser.add_argument(
        "--unit",
        metavar="COLUMN",
        help="a column that says whose row it is; a person's rows share eps",
    )
    parser.add_argument(
        "--most-rows",
        type=int,
        metavar="M",
        help="release at most M rows of each person; default: all",
    )
    parser.add_argument("--again", action="store_true",
                        help="release the column a second time; eps adds up")  # fmt: skip
    parser.add_argument(
        "--seed", type=int, metavar="N", help="for tests only: who knows it can undo the noise"
    )


def run(given: argparse.Namespace) -> int:
    """Writes the release."""
    if given.seed is not None:
        check_integer("--seed", given.seed, low=0)
    check_new(given.out, ".parquet", read=(given.file,), advice=THERE)
    if given.most_rows is not None:
        check_integer("--most-rows", given.most_rows, low=1)
        if given.unit is None:
            raise InputError("--most-rows is for persons with several rows (give --unit too)")
    if (given.classes is None) == (given.bounds is None):
        both = "" if given.classes is None else ", not both"
        raise InputError(
            f"give --classes (all values that a label may have) or --bounds (numbers){both}"
        )
    for option, name in (("--row-id", given.row_id), ("--unit", given.unit)):
        if name == given.label:
            raise InputError(f"{option} must not be the secret column, got {name}")
    from labeldp.io.batches import TableFile
    from labeldp.named_mechanisms import CLASS_MECHANISMS, REAL_MECHANISMS
    from labeldp.recipe import check_bounds, check_classes, recipe_of, warn
    from labeldp.spending import moved_places
    from labeldp.streaming import Stream, StreamedRows
    from labeldp.units import capped

    check_eps(given.eps, "--eps")
    if given.bounds is None:
        check_classes(given.classes, "--classes")
    else:
        check_bounds(given.bounds, "--bounds")
    known = REAL_MECHANISMS if given.classes is None else CLASS_MECHANISMS
    check_choice("--mechanism", given.mechanism, ["auto", *known])

    table = TableFile(given.file)
    _check_header(table, given)
    table.check_column("--label", given.label)
    ids = None if given.row_id is None else _row_ids(table, given.row_id)
    unit = kept = numbers = None
    if given.unit is not None:
        persons = table.column(table.check_column("--unit", given.unit))
        for row in np.flatnonzero(persons.isna())[:1]:
            raise InputError(f"{given.file}, row {row + 1}, column {given.unit}: it is empty, but "
                             "--unit names whose row it is")  # fmt: skip
        unit, places, numbers = capped(
            persons.to_numpy(), given.most_rows, len(persons), given.unit
        )
        kept = np.zeros(len(persons), bool)
        kept[places] = True
    with _alone(given.out):
        before = spent_before(ids, numbers, given)
        recipe = recipe_of(
            given.eps, given.mechanism, {}, classes=given.classes, bounds=given.bounds, unit=unit,
            noise="secret" if given.seed is None else "seeded", source=given.label,
            identity=before.identity, counted=before.counted, row_id=given.row_id or "",
        )  # fmt: skip
        rows = StreamedRows(ids, kept, before.eps)
        stream = Stream(table, given.label, recipe, rows, given.seed)
        stream.write(given.out)
    warn(recipe, stream.size, stacklevel=1)
    if ids is None and (said := moved_places(before.releases, stream.read, "--row-id")):
        warnings.warn(said, stacklevel=1)
    print(stream.summary())
    if kept is not None and not kept.all():  # tells of persons, who are public, not of labels
        print(f"{np.sum(~kept):,} of {len(kept):,} rows are left out: --most-rows "
              f"{given.most_rows} keeps the first ones of each {given.unit}")  # fmt: skip
    what = f"hand it over with the other columns; keep {given.label}"
    if math.isinf(given.eps):
        what = "it holds the true labels: hand it to nobody"
    print(f"wrote {given.out} ({what})")
    return 0


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Lets one process at a time release into a folder: two at once would not see each other's."""
    from labeldp.support.files import only_one

    def wait() -> None:
        print(f"waits for another release into {out.parent.resolve()}", file=sys.stderr)

    with only_one(out, wait, LOCK):
        check_new(out, ".parquet", advice=THERE)  # the other one may have written it
        _remove_torn(out)
        yield


def _remove_torn(out: Path) -> None:
    """Removes what a killed command left of this release, a draw that nobody counts; tells of it.

    What is left of another release stays, and is told of too.
    """
    from labeldp.support.files import remove_torn

    for left in remove_torn(out):
        warnings.warn(
            f"{left} is removed: it held part of a release that was cut off (if somebody has "
            "seen it, its rows have spent that eps too, which is counted nowhere)",
            stacklevel=1,
        )
    for other in sorted(out.parent.glob(".*.parquet.*.partial")):
        warnings.warn(
            f"{other} holds part of a release that was cut off, or that another process writes; "
            "it is counted nowhere (delete it if it was cut off; if somebody has seen it, its rows "
            "have spent that eps too)",
            stacklevel=1,
        )


def _check_header(table: "TableFile", given: argparse.Namespace) -> None:
    """Refuses a file whose first row is data: what is said of its columns would show a label."""
    if table.is_parquet:
        return  # it names its columns apart from the rows
    cells = table.first_row()
    if given.label in cells:
        return
    # Cells with another sign between them are one cell to the reader.
    pieces = [piece for cell in cells for piece in BETWEEN.split(cell)]
    is_one = len(cells) == 1 and len(pieces) > 1
    is_class = any(_is_class(piece, given.classes) for piece in pieces)
    if is_one or is_class or any(_is_value(cell, given.classes) for cell in cells):
        raise InputError(
            f"{given.file} has no column {given.label}: its first row holds values, which are not "
            "shown, and no names of columns (write a header)"
        )


def _is_value(text: str, classes: list[str] | None) -> bool:
    try:
        float(text)
    except ValueError:  # a misspelled label is one too, although no release would take it
        return _is_class(text, classes)
    return True


def _is_class(text: str, classes: list[str] | None) -> bool:
    return text.strip().casefold() in {name.casefold() for name in classes or ()}


def _row_ids(table: "TableFile", name: str) -> NDArray:
    """Returns the ids in a column, whole numbers or texts.

    They are held as a whole, unlike labels, as each must be there once.
    """
    from labeldp.release import checked_row_ids

    column = table.column(table.check_column("--row-id", name))
    return checked_row_ids(row_ids_in(column, table.path), len(column))
