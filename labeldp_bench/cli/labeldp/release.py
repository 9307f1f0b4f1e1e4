r"""Release one column of labels, each with its own noise, once.

Example:
  labeldp release survey.csv --label answer --classes yes,no,refused --eps 1 \
      --out survey.release.parquet

The file holds row ids, what was released, and a manifest that says how; no label, no seed. Hand it
over with the other columns. A column is released once: a second release adds its eps to the first.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp_bench.cli.labeldp.arguments import check_new, names, number, two_numbers
from labeldp_bench.cli.labeldp.people import column_of, read_people, row_ids_of
from labeldp_bench.support.validate import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="CSV or Parquet, with a header")
    parser.add_argument("--label", required=True, metavar="COLUMN", help="what is to be released")
    parser.add_argument(
        "--classes", type=names, metavar="A,B,C",
        help="all values that a label may have; not taken from the file, which would tell of it",
    )  # fmt: skip
    parser.add_argument("--bounds", type=two_numbers, metavar="LOW,HIGH",
                        help="for numbers, in place of --classes")  # fmt: skip
    parser.add_argument("--eps", type=number, required=True, help="> 0; smaller is more private")
    parser.add_argument("--out", type=Path, required=True, metavar="RELEASE.parquet")
    parser.add_argument("--mechanism", default="auto", help="default: what `labeldp plan` says")
    parser.add_argument("--row-id", metavar="COLUMN", help="names rows; default: their number")
    parser.add_argument("--unit", metavar="COLUMN", help="names persons, who share eps over rows")
    parser.add_argument("--most-rows", type=int, metavar="M", help="of one person; default: all")
    parser.add_argument("--again", action="store_true",
                        help="release the column a second time; eps adds up")  # fmt: skip
    parser.add_argument("--seed", type=int, help="for tests only: the noise can then be undone")


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
    from labeldp_bench.own_labels.file import holds_release
    from labeldp_bench.own_labels.load import load_release
    from labeldp_bench.own_labels.privatize import privatize

    table = read_people(given.file, texts=given.label)
    labels = column_of(table, given.label, "--label", given.file)
    ids = row_ids_of(table, given.row_id, given.file)
    values = _checked(labels, given)
    beside = [path for path in sorted(given.out.parent.glob("*.parquet")) if holds_release(path)]
    releases = {path: load_release(path) for path in beside}
    source = given.label
    same = [
        path for path, each in releases.items()
        if each.manifest.source == source
        and np.isin(each.row_ids.astype(str), ids.astype(str)).any()
    ]  # fmt: skip
    if same and not given.again:
        raise InputError(
            f"{same[0]} holds a release of column {given.label} already, eps="
            f"{releases[same[0]].eps_spent:g} (use it; or give --again, which adds eps="
            f"{given.eps:g} to it)"
        )
    unit = None
    if given.unit is not None:
        persons = column_of(table, given.unit, "--unit", given.file)
        for row in np.flatnonzero(persons.isna())[:1]:
            raise InputError(f"{given.file}, row {row + 1}, column {given.unit}: it is empty, but "
                             "--unit names whose row it is")  # fmt: skip
        unit = persons.to_numpy()
    release = privatize(
        values, given.classes, given.eps, given.mechanism, seed=given.seed, row_ids=ids,
        bounds=given.bounds, unit=unit, most_rows=given.most_rows, source=source,
        unit_name=given.unit or "unit", after=_latest([releases[path] for path in same]),
    )  # fmt: skip
    release.save(given.out)
    print(release.summary())
    print(f"wrote {given.out}")
    return 0


def _latest(releases: list) -> list:
    """Returns the release that has counted all others: the one with the largest sum."""
    return [max(releases, key=lambda each: each.eps_spent)] if releases else []


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
