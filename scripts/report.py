"""Writes results/report.html: tables, figures, findings, audits and hardware on one page."""

from labeldp_bench.config import CHECKOUT
from labeldp_bench.page import write_page


def main() -> None:
    """Prints where the page is."""
    path = write_page()
    size = path.stat().st_size / 1e6
    print(f"wrote {path.relative_to(CHECKOUT)} ({size:.1f} MB, opens in any browser)")


if __name__ == "__main__":
    main()
