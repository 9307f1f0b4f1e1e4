"""Audit somebody else's randomiser: whether it has the eps that it claims.

Example:
  labeldp verify mine.py:randomise --classes 10 --eps 1

OBJECT is a function (labels, generator) -> what is released. Exit status 1: the claim does not hold.
"""

import argparse

from labeldp_bench.cli.labeldp.arguments import number
from labeldp_bench.support.validate import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("object", metavar="FILE.py:OBJECT")
    parser.add_argument("--classes", type=int, required=True, metavar="K")
    parser.add_argument("--eps", type=number, required=True, help="what it claims")


def run(given: argparse.Namespace) -> int:
    """Prints claimed, found and verdict."""
    raise InputError(
        "labeldp verify is not built yet (scripts/audit.py audits the mechanisms here)"
    )
