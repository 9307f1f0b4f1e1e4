"""Say what to expect before any label is released, or which eps an accuracy needs.

Example:
  labeldp plan --rows 20000 --classes 5 --eps 1
  labeldp plan --rows 20000 --classes 5 --accuracy 0.8
  labeldp plan --rows 20000 --classes 5 --eps 1 --features features.csv

Per mechanism: bits that one release tells of a label, how many true labels all releases are worth,
and the accuracy to be expected. With features the range is narrower: made-up labels that the
features explain are released and learnt.
"""

import argparse
from pathlib import Path

from labeldp_bench.cli.labeldp.arguments import number
from labeldp_bench.cli.labeldp.people import read_people
from labeldp_bench.support.validate import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="labels to release")
    parser.add_argument("--classes", type=int, required=True, metavar="K", help="at least 2")
    parser.add_argument("--eps", type=number, help="> 0")
    parser.add_argument("--accuracy", type=number, help="to reach, in place of --eps")
    parser.add_argument("--features", type=Path, metavar="FILE", help="CSV or Parquet")


def run(given: argparse.Namespace) -> int:
    """Prints the plan."""
    if (given.eps is None) == (given.accuracy is None):
        raise InputError("give --eps (to see the accuracy) or --accuracy (to see the eps)")
    from labeldp_bench.own_labels.plan import plan

    features = None
    if given.features is not None:
        from labeldp_bench.data.tables.files import check_finite
        from labeldp_bench.own_labels.models import features_of

        table = read_people(given.features)
        check_finite(str(given.features), table, "delete it from the file")
        features = features_of(table)
    found = plan(given.rows, given.classes, eps=given.eps, accuracy=given.accuracy, X=features)
    if given.accuracy is not None:
        print(f"eps={found.eps:.3g} for an accuracy of {given.accuracy:.0%}, by "
              f"{found.mechanism}")  # fmt: skip
    print(found.text())
    return 0
