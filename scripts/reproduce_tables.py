"""Writes every table of the papers from the committed records: ours beside the printed value.

    python scripts/reproduce_tables.py

Into results/tables. Nothing is trained; the exit status is 0 where cells are missing too.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import read_committed
from labeldp_bench.reports.tables.base import TABLES, write_tables
from labeldp_bench.support.checkout import CHECKOUT


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints how many cells are missing."""
    read_arguments(arguments, {})
    tables = write_tables()
    cells = {cell.config_hash for table in tables for cell in table.experiment.cells()}
    missing = cells - set(read_committed())
    print(f"{len(tables)} tables in {TABLES.relative_to(CHECKOUT)}: ", end="")
    print(f"{len(cells) - len(missing)} of {len(cells)} cells done, {len(missing)} missing")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
