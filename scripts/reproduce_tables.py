"""Writes every table of the papers from the committed records: ours beside the printed value."""

from labeldp_bench.collect import read_committed
from labeldp_bench.config import CHECKOUT
from labeldp_bench.tables import TABLES, write_tables


def main() -> None:
    """Prints how many cells miss; exits 0 all the same, as nothing is trained here."""
    tables = write_tables()
    cells = {cell.config_hash for table in tables for cell in table.experiment.cells()}
    missing = cells - set(read_committed())
    print(f"{len(tables)} tables in {TABLES.relative_to(CHECKOUT)}: ", end="")
    print(f"{len(cells) - len(missing)} of {len(cells)} cells done, {len(missing)} missing")


if __name__ == "__main__":
    main()
