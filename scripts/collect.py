"""Merges the records of your runs into results/records.csv and results/per_class.csv.

    python scripts/collect.py [out_dir=results/runs]

A record replaces the row of the same run.
"""

import sys
from pathlib import Path

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import COMMITTED, collect
from labeldp_bench.support.checkout import CHECKOUT


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints how many records there were."""
    out_dir = Path(read_arguments(arguments, {"out_dir": "results/runs"})["out_dir"]).expanduser()
    if not out_dir.is_dir():
        raise InputError(f"out_dir must be the folder of your runs, got '{out_dir}' (no folder)")
    print(f"{collect(out_dir)} records merged into {COMMITTED.relative_to(CHECKOUT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
