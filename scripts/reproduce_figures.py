"""Draws every figure of the papers from the committed records and checks what their text says."""

from labeldp_bench.config import CHECKOUT
from labeldp_bench.figures import FIGURES, write_figures


def main() -> None:
    """Prints which cells miss; exits 0 all the same, as nothing is trained here."""
    written = write_figures()
    for figure, cells, missing in written:
        state = "no record, no picture" if missing == cells else f"{cells - missing} of {cells}"
        fill = f": {figure.command}" if missing else ""
        print(f"{figure.name:30} {state:22} {missing or ''}{' missing' if missing else ''}{fill}")
    cells, missing = (sum(row[column] for row in written) for column in (1, 2))
    print(f"{len(written)} figures in {FIGURES.relative_to(CHECKOUT)}: ", end="")
    print(f"{cells - missing} of {cells} cells done, {missing} missing")


if __name__ == "__main__":
    main()
