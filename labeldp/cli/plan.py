"""Say what releases would be worth, before any label is released.

Example:
  labeldp plan --rows 20000 --classes 5 --eps 1
  labeldp plan --rows 20000 --classes 2 --shares 0.9,0.1 --eps 1

Prints for each mechanism how many bits one release tells of its label and how many true labels all
releases together are worth, and which mechanism is recommended. No true label is read.
"""

import argparse

from labeldp.cli.arguments import number, numbers
from labeldp.support.validate import check_eps, check_integer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--rows", type=int, required=True, metavar="N", help="how many labels")
    parser.add_argument(
        "--classes", type=int, required=True, metavar="K", help="how many classes, 2 to 10,000"
    )
    parser.add_argument(
        "--eps",
        type=number,
        required=True,
        help="privacy budget, at least 1e-5; smaller is more private",
    )
    parser.add_argument(
        "--shares",
        type=numbers,
        metavar="A,B,...",
        help="your guess of each class's share; it must not come from the labels",
    )


def run(given: argparse.Namespace) -> int:
    """Prints the plan."""
    check_integer("--rows", given.rows, low=1)
    check_eps(given.eps, "--eps")
    from labeldp.planning import MOST_CLASSES, check_shares, plan

    check_integer("--classes", given.classes, low=2, high=MOST_CLASSES)
    shares = check_shares("--shares", given.shares, given.classes)
    print(plan(given.rows, given.classes, given.eps, class_shares=shares).text())
    return 0
