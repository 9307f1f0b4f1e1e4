"""Draws every figure from the committed records and checks what the papers' text says of them.

    python scripts/reproduce_figures.py

Into results/figures and docs/. Nothing is trained; exit 0 where cells are missing too.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import check_committed
from papers.reproduce import write_figures, write_other_pictures


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints what is missing."""
    read_arguments(arguments, {})
    check_committed()
    write_figures()
    write_other_pictures()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
