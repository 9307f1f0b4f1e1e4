r"""Release one column of labels, each with its own noise, once.

Example:
  labeldp release survey.csv --label answer --classes yes,no,refused --eps 1 \
      --out survey.release.parquet

The file holds row ids, what was released, and a manifest that says how; no label, no seed. Hand it
over with the other columns. A column is released once: a second release adds its eps to the first.
The file is read some rows at a time, so that it may be larger than memory; --row-id and --unit hold
their own column as a whole.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp_bench.cli.labeldp.arguments import check_new, names, number, two_numbers
from labeldp_bench.cli.labeldp.people import row_ids_in
from labeldp_bench.support.validate import InputError, check_eps, check_integer

if TYPE_CHECKING:
    from labeldp_bench.data.tables.batches import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="CSV, TSV or Parquet, with a header"
    )
    parser.add_argument("--label", required=True, metavar="COLUMN", help="the secret column")
    parser.add_argument(
        "--classes", type=names, metavar="A,B,C",
        help="all values that a label may have, as the file writes them (truth values of Parquet: "
        "true,false); not read from it, as a list of those that occur would tell of rare ones",
    )  # fmt: skip
    parser.add_argument("--bounds", type=two_numbers, metavar="LOW,HIGH",
                        help="of a column of numbers, in place of --classes")  # fmt: skip
    parser.add_argument("--eps", type=number, required=True, help="> 0; smaller is more private")
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
        help="a column that names each row; default: its place, from 0",
    )
    parser.add_argument(
        "--unit", metavar="COLUMN", help="a column that names persons; their rows share eps"
    )
    parser.add_argument(
        "--most-rows",
        type=int,
        metavar="M",
        help="how many rows of one person are released; default: all",
    )
    parser.add_argument("--again", action="store_true",
                        help="release the column a second time; eps adds up")  # fmt: skip
    parser.add_argument(
        "--seed", type=int, metavar="N", help="for tests only: the noise can then be undone"
    )


def run(given: argparse.Namespace) -> int:
    """Writes the release."""
    if given.seed is not None:
        check_integer("--seed", given.seed, low=0)
    check_new(given.out, ".parquet", read=(given.file,))
    if given.most_rows is not None:
        check_integer("--most-rows", given.most_rows, low=1)
        if given.unit is None:
            raise InputError("--most-rows is for persons with several rows (give --unit too)")
    if (given.classes is None) == (given.bounds is None):
        raise InputError("give --classes (all values that a label may have) or --bounds (numbers)")
    for option, name in (("--row-id", given.row_id), ("--unit", given.unit)):
        if name == given.label:
            raise InputError(f"{option} must not be the secret column, got {name}")
    from labeldp_bench.data.tables.batches import Table
    from labeldp_bench.own_labels.recipe import Before, check_bounds, check_classes, recipe_of, warn
    from labeldp_bench.own_labels.streaming import Rows, Stream
    from labeldp_bench.own_labels.units import capped

    check_eps(given.eps)
    if given.bounds is None:
        check_classes(given.classes)
    else:
        check_bounds(given.bounds)

    table = Table(given.file)
    table.check_column("--label", given.label)
    ids = None if given.row_id is None else _row_ids(table, given.row_id)
    earlier = _earlier(ids, given)
    unit = kept = None
    if given.unit is not None:
        persons = table.column(table.check_column("--unit", given.unit))
        for row in np.flatnonzero(persons.isna())[:1]:
            raise InputError(f"{given.file}, row {row + 1}, column {given.unit}: it is empty, but "
                             "--unit names whose row it is")  # fmt: skip
        unit, places = capped(persons.to_numpy(), given.most_rows, len(persons), given.unit)
        kept = np.zeros(len(persons), bool)
        kept[places] = True
    recipe = recipe_of(
        given.eps, given.mechanism, {}, classes=given.classes, bounds=given.bounds, unit=unit,
        noise="secret" if given.seed is None else "seeded", source=given.label,
        identity=earlier.identity if earlier else None,
    )  # fmt: skip
    before = Before(earlier.row_ids, earlier.spent) if earlier else None
    stream = Stream(table, given.label, recipe, Rows(ids, kept, before), given.seed)
    stream.write(given.out)
    warn(recipe, stream.size, stacklevel=1)
    print(stream.summary())
    what = f"hand it over with the other columns; keep {given.label}"
    if math.isinf(given.eps):
        what = "it holds the true labels: hand it to nobody"
    print(f"wrote {given.out} ({what})")
    return 0


@dataclass(frozen=True)
class Earlier:
    """An earlier release of the same rows, without what was released.

    Attributes:
        row_ids: (N,).
        spent: eps of each row over all its releases, (N,).
        eps_spent: the same of the worst-off label, or person.
        identity: of the release.
    """

    row_ids: NDArray
    spent: NDArray[np.float64]
    eps_spent: float
    identity: str


def _row_ids(table: "Table", name: str) -> NDArray:
    """Returns the ids in a column, whole numbers or texts.

    They are held as a whole, unlike labels, as each must be there once.
    """
    from labeldp_bench.own_labels.release import checked_row_ids

    column = table.column(table.check_column("--row-id", name))
    return checked_row_ids(row_ids_in(column, table.path), len(column))


def _earlier(ids: NDArray | None, given: argparse.Namespace) -> Earlier | None:
    """Returns the release of the same rows that has counted all others, if there is one.

    Looks at the releases beside the output, as those elsewhere are not known.

    Raises:
        InputError: there is one, and --again is not given; or its rows have other names.
    """
    from labeldp_bench.own_labels.file import holds_release, read_rows

    same: dict[Path, Earlier] = {}
    for path in sorted(given.out.parent.glob("*.parquet")):
        if not holds_release(path):
            continue
        row_ids, spent, manifest = read_rows(path)
        if manifest.source != given.label:
            continue
        is_counted = row_ids.dtype.kind in "iu"
        if ids is None:  # rows count from 0, and the first one is always released
            shared = is_counted and 0 in row_ids
        else:
            shared = bool(np.isin(row_ids.astype(str), ids.astype(str)).any())
        if shared:
            most = manifest.unit.most_rows if manifest.unit else 1
            worst = float(spent.max(initial=0.0)) * most
            same[path] = Earlier(row_ids, spent, worst, manifest.identity)
        elif is_counted != (ids is None or ids.dtype.kind in "iu"):
            raise InputError(
                f"{path} holds a release of column {given.label} whose rows have other names (give "
                "the same --row-id; or, if these are other persons, write to another folder)"
            )
    if not same:
        return None
    path = max(same, key=lambda each: same[each].eps_spent)
    if not given.again:
        raise InputError(
            f"{path} holds a release of column {given.label} already, eps="
            f"{same[path].eps_spent:g} (use it; or give --again, which adds eps={given.eps:g} to "
            "it)"
        )
    return same[path]
