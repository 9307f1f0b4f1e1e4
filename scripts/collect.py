"""Merges the records under a folder (default: results/runs) into results/records.csv."""

import sys
from pathlib import Path

from labeldp_bench.collect import COMMITTED, collect


def main() -> None:
    """Entry point; the only argument is the folder."""
    out_dir = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("results/runs")
    if not out_dir.is_dir():
        sys.exit(f"error: no folder {out_dir} (give the out_dir of your runs)")
    print(f"{collect(out_dir)} records merged into {COMMITTED.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
