"""Draws every figure of the papers from the committed records and checks what their text says.

    python scripts/reproduce_figures.py

Into results/figures. Nothing is trained; the exit status is 0 where cells are missing too.
"""

import sys

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.records.collect import read_committed
from labeldp_bench.support.checkout import CHECKOUT
from papers import FIGURES
from papers.catalog import load_table
from papers.figures.text import counts
from papers.figures.write import write_figures
from papers.site import best_known_page, tuned_page
from papers.theoretical_limits.exponents import write_pictures
from papers.theoretical_limits.table1 import ExponentTable

EXPONENTS = "theoretical_limits/table1"


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints what is missing."""
    read_arguments(arguments, {})
    total = found = 0
    written = write_figures()
    for figure, points in written:
        cells, done = counts(points)
        total, found = total + cells, found + done
        state = f"{done} of {cells} cells done" if done else f"no record of {cells}, no picture"
        print(f"{figure.stem}: {state}" + (f"; fill: {figure.command}" if done < cells else ""))
    table = load_table(EXPONENTS)
    assert isinstance(table, ExponentTable), "its YAML names that kind"
    pictures = write_pictures(table, read_committed(), FIGURES)
    print(f"{EXPONENTS}: {', '.join(path.name for path in pictures) or 'no record, no picture'}")
    for stem in (best_known_page.STEM, tuned_page.STEM):
        names = sorted(path.name for path in FIGURES.glob(f"{stem}.p*"))
        print(f"{stem}: {', '.join(names) or 'no record, no picture'}")
    print(f"{len(written)} figures in {FIGURES.relative_to(CHECKOUT)}: ", end="")
    print(f"{found} of {total} cells done, {total - found} missing")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
