r"""Release one column of labels, each with its own noise, once.

Example:
  labeldp release survey.csv --label answer --classes yes,no,refused --eps 1 \
      --out survey.release.parquet

The file holds row ids, what was released, and a manifest that says how; no label, no seed. Hand it
over with the other columns. A column is released once: a second release adds its eps to the first.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp_bench.cli.labeldp.arguments import check_new, names, number, two_numbers
from labeldp_bench.cli.labeldp.people import column_of, read_people, row_ids_of
from labeldp_bench.support.validate import InputError, check_eps

if TYPE_CHECKING:
    from labeldp_bench.own_labels.release import Release


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
    check_new(given.out, ".parquet")
    if given.most_rows is not None and given.unit is None:
        raise InputError("--most-rows is for persons with several rows (give --unit too)")
    if (given.classes is None) == (given.bounds is None):
        raise InputError("give --classes (all values that a label may have) or --bounds (numbers)")
    for option, name in (("--row-id", given.row_id), ("--unit", given.unit)):
        if name == given.label:
            raise InputError(f"{option} must not be the secret column, got {name}")
    from labeldp_bench.own_labels.privatize import check_bounds, check_classes, privatize

    check_eps(given.eps)
    if given.bounds is None:
        check_classes(given.classes)
    else:
        check_bounds(given.bounds)

    table = read_people(given.file, texts=given.label)
    labels = column_of(table, given.label, "--label", given.file)
    ids = row_ids_of(table, given.row_id, given.file)
    values = _checked(labels, given)
    same = _earlier(ids, given)
    unit = None
    if given.unit is not None:
        persons = column_of(table, given.unit, "--unit", given.file)
        for row in np.flatnonzero(persons.isna())[:1]:
            raise InputError(f"{given.file}, row {row + 1}, column {given.unit}: it is empty, but "
                             "--unit names whose row it is")  # fmt: skip
        unit = persons.to_numpy()
    release = privatize(
        values, given.classes, given.eps, given.mechanism, seed=given.seed, row_ids=ids,
        bounds=given.bounds, unit=unit, most_rows=given.most_rows, source=given.label,
        unit_name=given.unit or "unit", after=same,
    )  # fmt: skip
    release.save(given.out)
    print(release.summary())
    print(f"wrote {given.out} (hand it over with the other columns; keep {given.label})")
    return 0


def _earlier(ids: NDArray, given: argparse.Namespace) -> "list[Release]":
    """Returns the release of the same rows that has counted all others, if there is one.

    Looks at the releases beside the output, as those elsewhere are not known.

    Raises:
        InputError: there is one, and --again is not given; or its rows have other names.
    """
    from labeldp_bench.own_labels.file import holds_release
    from labeldp_bench.own_labels.load import load_release

    same = {}
    for path in sorted(given.out.parent.glob("*.parquet")):
        if not holds_release(path):
            continue
        release = load_release(path)
        if release.manifest.source != given.label:
            continue
        if np.isin(release.row_ids.astype(str), ids.astype(str)).any():
            same[path] = release
        elif (release.row_ids.dtype.kind in "iu") != (ids.dtype.kind in "iu"):
            raise InputError(
                f"{path} holds a release of column {given.label} whose rows have other names (give "
                "the same --row-id; or, if these are other persons, write to another folder)"
            )
    if not same:
        return []
    path = max(same, key=lambda each: same[each].eps_spent)
    if not given.again:
        raise InputError(
            f"{path} holds a release of column {given.label} already, eps="
            f"{same[path].eps_spent:g} (use it; or give --again, which adds eps={given.eps:g} to "
            "it)"
        )
    return [same[path]]


def _checked(labels: pd.Series, given: argparse.Namespace) -> NDArray:
    """Returns the labels as texts, or as numbers where bounds are given.

    Raises:
        InputError: one that cannot be released; says its row, not the label, which is secret.
    """
    column = f"column {given.label}"
    empty = np.flatnonzero(labels == "")
    if len(empty):
        raise InputError(f"{given.file}, row {empty[0] + 1}, {column}: the label is empty (leave "
                         "the row out, or add a class for it, such as refused)")  # fmt: skip
    if given.bounds is not None:
        numbers = pd.to_numeric(labels, errors="coerce").to_numpy(np.float64)
        wrong, what = ~np.isfinite(numbers), "the label is no finite number"
        values: NDArray = numbers
    else:
        values = labels.to_numpy(dtype=object)
        wrong = ~labels.isin(given.classes).to_numpy()
        what = f"the label is none of {','.join(given.classes)}"
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{given.file}, row {row + 1}, {column}: {what} (it is not shown, as "
                         "labels are secret)")  # fmt: skip
    return values
