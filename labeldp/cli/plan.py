"""Say what releases would be worth, before any label is released.

Example:
  labeldp plan --rows 20000 --classes 5 --eps 1
  labeldp plan --rows 20000 --classes 2 --shares 0.9,0.1 --eps 1
  labeldp plan --rows 20000 --classes 10 --ordinal --eps 1
  labeldp plan --rows 20000 --pilot pilot.csv --label y --accuracy 0.8

Prints for each mechanism how many bits one release tells of its label and how many true labels all
releases together are worth, and which mechanism is recommended. No true label is read, except with
--pilot: a table of features with labels that may be used. Then it prints, by simulation, how good a
model of so many releases would be at each eps.
"""

import argparse
from pathlib import Path

from labeldp.cli.arguments import number, numbers
from labeldp.support.validate import InputError, check_eps, check_integer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="how many labels")
    parser.add_argument("--classes", type=int, metavar="K", help="how many classes, 2 to 10,000")
    parser.add_argument(
        "--eps",
        type=numbers,
        help="privacy budget, at least 1e-5; smaller is more private. With --pilot several, such "
        "as 0.5,1,2",
    )
    parser.add_argument(
        "--shares",
        type=numbers,
        metavar="A,B,...",
        help="your guess of each class's share; it must not come from the labels",
    )
    parser.add_argument(
        "--ordinal",
        action="store_true",
        help="classes are in order, lowest first, and a guess is the worse the further off it is",
    )
    parser.add_argument(
        "--pilot", type=Path, metavar="FILE", help="CSV, TSV or Parquet: features, and a label"
    )
    parser.add_argument("--label", metavar="COLUMN", help="the pilot's column of labels")
    parser.add_argument(
        "--accuracy", type=number, metavar="A", help="with --pilot: say which eps it needs"
    )


def run(given: argparse.Namespace) -> int:
    """Prints the plan."""
    from labeldp.planning import MOST_CLASSES, MOST_ORDERED, check_shares, plan

    check_integer("--rows", given.rows, low=1)
    for each in given.eps or ():
        check_eps(each, "--eps")
    if given.pilot is not None:
        return _from_pilot(given)
    if given.label is not None or given.accuracy is not None:
        raise InputError("--label and --accuracy are for a pilot (give --pilot FILE too)")
    if given.classes is None or given.eps is None or len(given.eps) != 1:
        raise InputError("give --classes and one --eps, or a --pilot")
    most = MOST_ORDERED if given.ordinal else MOST_CLASSES
    check_integer("--classes", given.classes, low=2, high=most)
    shares = check_shares("--shares", given.shares, given.classes)
    print(plan(given.rows, given.classes, given.eps[0], shares, ordinal=given.ordinal).text())
    return 0


def _from_pilot(given: argparse.Namespace) -> int:
    if given.label is None:
        raise InputError("--pilot needs --label, its column of labels")
    if given.classes is not None or given.shares is not None or given.ordinal:
        raise InputError(
            "a pilot has its own classes, and no order (leave --classes, --shares, --ordinal out)"
        )
    from labeldp.io.tables import TableFile
    from labeldp.models import model_for
    from labeldp.planning import plan

    file = TableFile(given.pilot)
    labels = file.read_names("--label", given.label)
    table = file.features(drop={given.label})
    if not len(table.columns):
        raise InputError(f"{given.pilot} has no feature")
    found = plan(
        given.rows, pilot=(table, labels), eps=given.eps, accuracy=given.accuracy,
        model=model_for(table),
    )  # fmt: skip
    print(found.text())
    return 0
