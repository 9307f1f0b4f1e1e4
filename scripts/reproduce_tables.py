"""Writes every table of the papers from the committed records: ours beside the printed value.

    python scripts/reproduce_tables.py

Into results/tables. Nothing is trained; the exit status is 0 where cells are missing too.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import read_with_classes
from labeldp_bench.support.checkout import CHECKOUT
from papers.naming import SMALLER
from papers.reproduce import write_site_tables, write_tables
from papers.site.best_known import write_best_known
from papers.tables import TABLES


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints how many cells are missing."""
    read_arguments(arguments, {})
    records = read_with_classes()
    tables = write_tables(records)
    cells = {cell.config_hash for table in tables for cell in table.experiment.cells()}
    missing = cells - set(records)
    known = write_best_known(records)
    pages = write_site_tables(records)
    print(f"{len(tables) + len(pages) + 1} tables in {TABLES.relative_to(CHECKOUT)}: ", end="")
    print(f"{len(cells) - len(missing)} of {len(cells)} cells done, {len(missing)} missing")
    for budget in sorted({record["budget"] for record in records.values()}.intersection(SMALLER)):
        less = {cell.config_hash for table in tables for cell in table.experiment.cells(budget)}
        print(f"budget={budget}: {len(less & set(records))} of {len(less)} cells done")
    counts = ", ".join(
        f"{name} {count}" for name, count in known.ahead.value_counts().items() if name
    )
    print(f"best_known: {len(known)} rows; ahead under local privacy: {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
