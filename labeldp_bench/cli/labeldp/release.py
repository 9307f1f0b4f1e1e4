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

from labeldp_bench.cli.labeldp.arguments import check_new, names, number, two_numbers
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
    from labeldp_bench.own_labels.file import holds_release
    from labeldp_bench.own_labels.load import load_release
    from labeldp_bench.own_labels.privatize import privatize
    from labeldp_bench.own_labels.tables import column_of, read_people, row_ids_of

    table = read_people(given.file, texts=given.label)
    labels = column_of(table, given.label, given.file)
    ids = row_ids_of(table, given.row_id, given.file)
    where = f"{given.file}, column {given.label}"
    for row in np.flatnonzero((labels == "").to_numpy())[:1]:
        raise InputError(f"{given.file}, row {row}, column {given.label}: the label is empty "
                         "(leave the row out, or give it a class)")  # fmt: skip
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
    unit = None if given.unit is None else column_of(table, given.unit, given.file).to_numpy()
    values = labels.to_numpy(dtype=object)
    if given.bounds is not None:
        values = _numbers(values, where)
    try:
        release = privatize(
            values, given.classes, given.eps, given.mechanism, seed=given.seed, row_ids=ids,
            bounds=given.bounds, unit=unit, most_rows=given.most_rows, source=source,
            unit_name=given.unit or "unit", after=_latest([releases[path] for path in same]),
        )  # fmt: skip
    except InputError as error:
        text = str(error)
        raise InputError(f"{where}: {text}" if text.startswith("row ") else text) from None
    release.save(given.out)
    print(release.summary())
    print(f"wrote {given.out}")
    return 0


def _latest(releases: list) -> list:
    """Returns the release that has counted all others: the one with the largest sum."""
    return [max(releases, key=lambda each: each.eps_spent)] if releases else []


def _numbers(values: np.ndarray, where: str) -> np.ndarray:
    try:
        return values.astype(np.float64)
    except ValueError:
        for row, value in enumerate(values):
            try:
                float(value)
            except ValueError:
                raise InputError(f"{where}: row {row}: the label is no number") from None
        raise
