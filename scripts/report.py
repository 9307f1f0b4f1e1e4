"""Writes results/report.html, results/leaderboard.json and its page results/leaderboard.html.

    python scripts/report.py

The report has an overview, each paper, findings, audits and hardware; the leaderboard is the
best-known table. The pages load nothing from elsewhere.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.support.checkout import CHECKOUT
from papers.site.pages import LEADERBOARD, write_leaderboard, write_report


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints where the pages are."""
    read_arguments(arguments, {})
    path = write_report()
    size = path.stat().st_size / 1e6
    print(f"wrote {path.relative_to(CHECKOUT)} ({size:.1f} MB, opens in any browser)")
    rows = write_leaderboard()
    print(f"wrote {LEADERBOARD.relative_to(CHECKOUT)} and its page ({rows} rows)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
