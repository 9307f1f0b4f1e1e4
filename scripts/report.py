"""Writes results/report.html: tables, figures, findings, audits and hardware on one page.

    python scripts/report.py

The page loads nothing from elsewhere.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.reports.page import write_page
from labeldp_bench.support.checkout import CHECKOUT


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints where the page is."""
    read_arguments(arguments, {})
    path = write_page()
    size = path.stat().st_size / 1e6
    print(f"wrote {path.relative_to(CHECKOUT)} ({size:.1f} MB, opens in any browser)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
