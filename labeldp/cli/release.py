r"""Release one column of labels, each with its own noise, once.

Example:
  labeldp release survey.csv --label answer --classes yes,no,refused --eps 1 --row-id person \
      --out survey.release.parquet

RELEASE.parquet holds row ids, what was released, and how that was made; no true label and no seed.
Hand it over with the other columns. Every release is booked in a ledger, by default FILE.ledger,
which is as secret as FILE. A row that was released before needs --again, whatever its column is
called, and its eps adds up. A ledger names rows by one column, and counts one unit, for its life.
FILE may be larger than memory; the columns of --row-id, --unit and --label must fit into it.
"""

import argparse
import functools
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labeldp.cli.arguments import ROW_ID, add_table, check_new, names, number, two_numbers
from labeldp.support.validate import InputError, check_choice, check_eps, check_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.accounted_rows import AccountedRows, ColumnDigest
    from labeldp.io.tables import TableFile
    from labeldp.ledger import Ledger
    from labeldp.manifest import Manifest

USE_IT = "use it, or choose another name"
FAR_MORE = 5
"""Times as many rows as any other person has: such a name may stand for nobody."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser, "FILE", ROW_ID)
    parser.add_argument("--label", required=True, metavar="COLUMN", help="the secret column")
    parser.add_argument(
        "--classes", type=names, metavar="A,B,C",
        help="all values that a label may have, spelled as in the file (Parquet's truth values: "
        "true,false; a value with a comma is in quotes: '\"no, never\",yes'); they are not "
        "taken from the file, as this would show which answers occur",
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
    parser.add_argument(
        "--ledger",
        type=Path,
        metavar="PATH",
        help="the account of what rows have spent; default: FILE.ledger",
    )
    parser.add_argument(
        "--again", action="store_true", help="release rows a second time; eps adds up"
    )
    parser.add_argument(
        "--book",
        type=Path,
        action="append",
        default=[],
        metavar="RELEASE",
        help="a release of these rows that the ledger does not know; may be given several times",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="for tests only: anyone with it can remove the noise"
    )


def run(given: argparse.Namespace) -> int:
    """Writes the release."""
    _check(given)
    from labeldp.accounted_rows import COMMAND
    from labeldp.io.tables import TableFile
    from labeldp.ledger import Ledger
    from labeldp.manifest import Unit, summary_of
    from labeldp.names import spellings
    from labeldp.privatization import new_manifest, warn
    from labeldp.streaming import read_labels, write_release
    from labeldp.support.files import remove_torn, replacing
    from labeldp.suspects import suspects_of_release

    table = TableFile(given.file, given.separator, secret=given.label)
    ids = persons = None
    if given.row_id is not None:
        ids = table.read_names("--row-id", given.row_id, are_distinct=True)
    if given.unit is not None:
        persons = table.read_names("--unit", given.unit)
    who = None if persons is None else spellings(persons)
    if who is not None and given.most_rows is None:
        _check_persons(who, given)
    unit, kept = Unit.of(who, given.unit, given.most_rows)
    blank = new_manifest(
        given.eps, given.mechanism, classes=given.classes, bounds=given.bounds, unit=unit,
        noise="secret" if given.seed is None else "seeded", source=given.label,
        row_id=given.row_id or "",
    )  # fmt: skip
    coded, digest = read_labels(table, given.label, blank)
    rows = _rows(table, digest, ids, persons, given)
    blank = replace(blank, num_rows=rows.size)

    # A link to the file is the file; its ledger is beside the file.
    file = given.file.resolve() if given.file.is_symlink() else given.file
    ledger = Ledger(given.ledger or file.with_name(f"{file.name}.ledger"))
    is_new = not ledger.exists
    for note in [*ledger.settle(), *(f"{each} is removed: a release was cut off"
                                     for each in remove_torn(given.out))]:  # fmt: skip
        warnings.warn(note, stacklevel=1)
    check_new(
        given.out, ".parquet", advice=USE_IT
    )  # which a release that was cut off may have made
    _book(ledger, rows, given.book)
    _check_known(ledger, rows, given)
    nothing = InputError(
        f"--again adds to an earlier release of these rows, and {ledger.path} holds none (leave it "
        "out; or name the ledger that does by --ledger)"
    )
    if given.again and not ledger.exists:
        raise nothing
    row_ids = np.arange(rows.size) if ids is None else ids
    for suspect in suspects_of_release(
        table, given.label, given.row_id, given.unit, blank.row_eps, of_numbers=bool(given.bounds)
    ):
        warnings.warn(suspect, stacklevel=1)
    if given.unit is None:
        print("each row counts as a person of its own (--unit COLUMN if not)")
    charged = ledger.charge(blank, rows, again=given.again, options=COMMAND, file=given.out)
    with charged as (made, before), replacing(given.out) as partial:
        if given.again and not before.entries:
            raise nothing
        spent = (made.eps + before.eps)[kept]
        write_release(partial, coded[kept], made, ids=row_ids[kept], spent=spent, seed=given.seed)
        check_new(given.out, ".parquet", advice=USE_IT)  # another command may have written it
        ledger.check_holds(made)
    warn(made, len(spent), before.notes, stacklevel=1)
    print(summary_of(made, len(spent), float(spent.max(initial=0.0))))
    _print_rest(given, rows.size - len(spent), rows.size, ledger if is_new else None)
    return 0


def _check(given: argparse.Namespace) -> None:
    """Refuses wrong options before the file is read."""
    from labeldp.manifest import check_bounds, check_classes
    from labeldp.named_mechanisms import CLASS_MECHANISMS, REAL_MECHANISMS

    if given.seed is not None:
        check_integer("--seed", given.seed, low=0)
    check_new(given.out, ".parquet", read=(given.file,), advice=USE_IT)
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
    check_eps(given.eps, "--eps")
    if given.bounds is None:
        check_classes(given.classes, "--classes")
    else:
        check_bounds(given.bounds, "--bounds")
    known = REAL_MECHANISMS if given.classes is None else CLASS_MECHANISMS
    check_choice("--mechanism", given.mechanism, ["auto", *known])


def _check_persons(who: "NDArray", given: argparse.Namespace) -> None:
    """Refuses a person with far more rows than any other: it may stand for a missing name."""
    largest = Counter(who.tolist()).most_common(2) or [("", 0)]  # no rows
    (name, most), next_most = largest[0], largest[-1][1]
    if most >= FAR_MORE * max(2, next_most):
        raise InputError(
            f"{given.file}, column {given.unit}: {name} has {most:,} rows, and no other more than "
            f"{next_most:,}, so that each row would get eps / {most:,} (if it stands for a missing "
            f"name, leave these rows out; otherwise give --most-rows, up to {most})"
        )


def _print_rest(
    given: argparse.Namespace, left_out: int, size: int, started: "Ledger | None"
) -> None:
    """Says which rows are left out, which ledger was started, and what to do with the files."""
    if left_out:  # persons are public
        print(f"{left_out:,} of {size:,} rows are left out: --most-rows "
              f"{given.most_rows} keeps the first ones of each {given.unit}")  # fmt: skip
    if started is not None:
        print(
            f"started the ledger {started.path}, which counts what each row spends (keep it as "
            f"secret as {given.file.name}; a copied or renamed file needs --ledger {started.path})"
        )
    what = f"hand it over with the other columns; keep {given.label}"
    if math.isinf(given.eps):
        what = "it holds the true labels: hand it to nobody"
    print(f"wrote {given.out} ({what})")


def _rows(
    table: "TableFile", digest: "ColumnDigest", ids: "NDArray | None", persons: "NDArray | None",
    given: argparse.Namespace,
) -> "AccountedRows":  # fmt: skip
    """Returns whose labels the file holds."""
    from labeldp.accounted_rows import AccountedRows
    from labeldp.streaming import digest_of_column

    @functools.cache
    def digest_of(column: str) -> "ColumnDigest | None":
        if column == given.label:
            return digest
        return digest_of_column(table, column) if column in table.names else None

    return AccountedRows(
        digest.size, digest_of, given.label, ids, given.row_id or "", persons,
        given.unit or "",
    )  # fmt: skip


def _book(ledger: "Ledger", rows: "AccountedRows", paths: Sequence[Path]) -> None:
    """Books the releases of --book that the ledger does not know."""
    from labeldp.release_file import holds_release, read_rows

    read = {}
    for path in paths:
        if not path.is_file() or not holds_release(path):
            raise InputError(f"--book: {path} holds no release")
        read[path] = read_rows(path)
    # A release is exact if those that it counted are booked before it.
    for path, (ids, spent, made) in sorted(read.items(), key=lambda each: len(each[1][2].counted)):
        if not ledger.knows(made, ids):
            ledger.book(made, ids, spent, rows, path)


def _check_known(ledger: "Ledger", rows: "AccountedRows", given: argparse.Namespace) -> None:
    """Refuses a release of these rows, in the folder of the output, that the ledger lacks."""
    from labeldp.release_file import holds_release, read_rows
    from labeldp.support.files import is_partial

    for path in sorted(given.out.parent.iterdir()):
        if is_partial(path) or not holds_release(path):
            continue
        ids, _, made = read_rows(path)
        if not ledger.knows(made, ids) and _shares_rows(rows, made, ids, given.label):
            raise InputError(
                f"{path} holds a release of these rows (eps={made.eps:g}) that the ledger "
                f"{ledger.path} does not know (give --book {path}; or, if these are other rows, "
                "write to another folder)"
            )


def _shares_rows(rows: "AccountedRows", made: "Manifest", ids: "NDArray", label: str) -> bool:
    """Returns whether a release may be of these rows: of this column, or with some of their ids."""
    from labeldp.accounted_rows import is_counted
    from labeldp.names import spellings

    if is_counted(made, ids):
        return made.source == label or (made.source == "" and rows.ids is None)
    if rows.ids is None:
        return made.source == label
    # np.isin compares each pair of objects: an hour for 10^6 ids and a release of 10^5.
    return not set(spellings(ids)).isdisjoint(spellings(rows.ids))
