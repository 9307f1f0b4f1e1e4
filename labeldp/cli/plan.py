"""Say what to expect before any label is released, or which eps an accuracy needs.

Example:
  labeldp plan --rows 20000 --classes 5 --eps 1
  labeldp plan --rows 20000 --classes 5 --accuracy 0.65
  labeldp plan --rows 20000 --classes 2 --shares 0.9,0.1 --eps 1 --features features.csv

Prints for each mechanism how many bits one release tells of its label, how many true labels all
releases together are worth, and the accuracy to expect. The accuracy is a range, since nobody knows
yet how well your features tell the classes apart: nine of ten real data sets lie in it. --shares
makes it narrower, --features a little. No true label is read.
"""

import argparse
from pathlib import Path

from labeldp.cli.arguments import number, numbers
from labeldp.cli.people import NO_CATEGORY, column_of, read_people
from labeldp.support.validate import InputError, check_eps, check_integer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="how many labels")
    parser.add_argument(
        "--classes", type=int, required=True, metavar="K", help="how many classes, 2 to 10,000"
    )
    parser.add_argument(
        "--eps", type=number, help="privacy budget, at least 1e-5; smaller is more private"
    )
    parser.add_argument(
        "--accuracy",
        type=number,
        metavar="SHARE",
        help="in place of --eps: 0.8 finds the eps that gives 80 percent",
    )
    parser.add_argument(
        "--shares", type=numbers, metavar="A,B,...",
        help="your guess of each class's share; it must not come from the labels",
    )  # fmt: skip
    parser.add_argument("--features", type=Path, metavar="FILE",
                        help="public columns, without the label: CSV, TSV or Parquet")  # fmt: skip
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN",
                        help="a column that is no feature; may be given several times")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints the plan."""
    check_integer("--rows", given.rows, low=1)
    if given.eps is not None:
        check_eps(given.eps, "--eps")
    if (given.eps is None) == (given.accuracy is None):
        both = "" if given.eps is None else ", not both"
        raise InputError(f"give --eps (to see the accuracy) or --accuracy (to see the eps){both}")
    if given.drop and given.features is None:
        raise InputError("--drop leaves out a column of --features, and there is no --features")
    from labeldp.planning import MOST_CLASSES, check_above_chance, check_shares, plan

    check_integer("--classes", given.classes, low=2, high=MOST_CLASSES)
    if given.accuracy is not None:
        check_above_chance("--accuracy", given.accuracy, given.classes)
    shares = check_shares("--shares", given.shares, given.classes)
    features = None
    if given.features is not None:
        from labeldp.io.cells import check_finite
        from labeldp.models import features_of

        table = read_people(given.features)
        for name in given.drop:
            column_of(table, name, "--drop", given.features)
        table = table.drop(columns=given.drop)
        check_finite(str(given.features), table, NO_CATEGORY)
        features = features_of(table)
    found = plan(
        given.rows, given.classes, eps=given.eps, accuracy=given.accuracy,
        class_shares=shares, X=features,
    )  # fmt: skip
    if given.accuracy is not None:
        print(f"eps={found.eps:.3g} for a middle accuracy of {found.accuracy_middle:.0%}, by "
              f"{found.mechanism}")  # fmt: skip
    print(found.text())
    return 0
