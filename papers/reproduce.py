"""Every figure of the papers and of the site, drawn from the committed records alone.

Nothing is trained. The same records and library versions give the same bytes.
"""

from pathlib import Path

import papers
from labeldp.support.files import write_text
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Records
from papers.blockrr import figures as blockrr
from papers.catalog import load_table
from papers.figures import PaperFigure, counts, write_both, write_figure
from papers.ple import figures as ple
from papers.site import (
    best_known,
    confirmations,
    findings,
    mechanisms,
    mechanisms_compared,
    rare_events,
    trust,
    tuned,
)
from papers.site.best_known_picture import draw_best_known
from papers.site.tuned_picture import draw_tuned
from papers.theoretical_limits import exponents
from papers.theoretical_limits import figures as theoretical_limits
from papers.theoretical_limits.table1 import ExponentTable
from papers.vector_approximation import figures as vector_approximation

ALL: tuple[PaperFigure, ...] = (
    *blockrr.ALL,
    trust.FIGURE,
    *ple.ALL,
    rare_events.FIGURE,
    *theoretical_limits.ALL,
    *vector_approximation.ALL,
)
"""The figures of experiments, each with a page."""


def write_figures(figures: tuple[PaperFigure, ...] = ALL, out: Path = papers.FIGURES) -> None:
    """Writes every figure and prints which cells are missing, with the command that fills them."""
    records = read_committed()
    total = found = 0
    for figure in figures:
        cells, done = counts(write_figure(figure, records, out))
        total, found = total + cells, found + done
        state = f"{done} of {cells} cells done" if done else f"no record of {cells}, no picture"
        fill = f"; fill: {figure.experiment.command}" if done < cells else ""
        print(f"{figure.stem}: {state}{fill}")
    print(f"{len(figures)} figures: {found} of {total} cells done, {total - found} missing")


def write_other_pictures(out: Path = papers.FIGURES) -> None:
    """Writes the pictures of tables, findings and docs/, and what the confirmations confirm."""
    records = read_committed()
    written = [*_of_tables(records, out), *findings.write_pictures(out)]
    written += [*mechanisms.write_pictures(records), *mechanisms_compared.write_page()]
    write_text(out.parent / "confirmations.md", confirmations.page(records))
    print("pictures: " + ", ".join(path.name for path in written))


def _of_tables(records: Records, out: Path) -> list[Path]:
    rates = load_table("theoretical_limits/table1")
    assert isinstance(rates, ExponentTable), "its YAML names that kind"
    published = read_published()
    known = best_known.rows_of(records, published)
    compared = tuned.rows_of(tuned.compared(records, published))
    return [
        *exponents.write_pictures(rates, records, out),
        *write_both(out / "best_known", lambda: draw_best_known(known)),
        *write_both(out / "tuned_vs_stated", lambda: draw_tuned(compared)),
    ]
