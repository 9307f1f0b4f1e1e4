"""Draws every figure from the committed records and checks what the papers' text says of them.

    python scripts/reproduce_figures.py

Into results/figures and docs/. Nothing is trained; exit 0 where cells are missing too.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import read_with_classes
from papers.reproduce import write_figures, write_other_pictures


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints what is missing."""
    read_arguments(arguments, {})
    records = read_with_classes()
    write_figures(records)
    write_other_pictures(records)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
