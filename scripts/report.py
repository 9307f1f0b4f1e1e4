"""Writes results/report.html, a page that loads nothing from elsewhere.

    python scripts/report.py

It has an overview, each paper, findings, audits and hardware.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.support.checkout import CHECKOUT
from papers.site.pages import write_report


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints where the page is."""
    read_arguments(arguments, {})
    path = write_report()
    size = path.stat().st_size / 1e6
    print(f"wrote {path.relative_to(CHECKOUT)} ({size:.1f} MB, opens in any browser)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
