"""Draws the confusion matrix of one image run into its folder.

    python scripts/confusion.py FOLDER

FOLDER is that of a finished run: the one that holds its record.json.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command
from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.record import is_done, is_heuristic, read_record, reading
from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.rendering import number_text


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes `confusion.png` into the run's folder."""
    if len(arguments) != 1:
        raise InputError(
            f"give one folder, of a finished image run; got {len(arguments)} arguments"
        )
    folder = Path(*arguments)
    source = folder / "confusion.csv"
    if not source.is_file():
        raise InputError(
            f"no confusion.csv in '{folder}' (give the folder of one finished image run)"
        )
    share = _shares(source)
    figure, ((axes,),) = plotting.new_figure(1, height=5.0)
    shown = axes.imshow(share, cmap="cividis", vmin=0, vmax=100)
    axes.grid(visible=False)
    title = " / ".join(folder.resolve().parts[-5:-1])
    if is_done(folder) and is_heuristic(read_record(folder)):
        title += f", {NO_GUARANTEE}"
    axes.set(xlabel="predicted class", ylabel="true class", title=title)
    if len(share) <= 20:
        axes.set_xticks(range(len(share)))
        axes.set_yticks(range(len(share)))
        for (row, column), value in _cells(share):
            colour = "white" if value <= 60 else "black"
            text = number_text(value, "{:.0f}")
            axes.text(column, row, text, ha="center", va="center", color=colour, size=7)
    figure.colorbar(shown, label="share of the true class, %", shrink=0.8)
    plotting.save(figure, folder / "confusion.png")
    print(folder / "confusion.png")
    return 0


def _shares(path: Path) -> np.ndarray:
    """Returns the percent of each true class, one a row; NaN for a class without a test image."""
    with reading(path):
        counts = pd.read_csv(path, index_col="true_class").astype(float).to_numpy()
        if not counts.size or counts.shape[0] != counts.shape[1]:
            raise ValueError(f"it has {' x '.join(map(str, counts.shape))} counts, not K x K")
    totals = counts.sum(axis=1, keepdims=True)
    return 100 * counts / np.where(totals > 0, totals, np.nan)


def _cells(share: np.ndarray) -> Iterator[tuple[tuple[int, int], float]]:
    return (((i, j), share[i, j]) for i in range(len(share)) for j in range(len(share)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
