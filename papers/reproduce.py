"""Every table and figure of the papers and of the site, from the committed records.

Nothing is trained. The same records and library versions give the same bytes.
"""

import re
from pathlib import Path

import pandas as pd

import papers
from labeldp.support.files import write_text
from labeldp_bench.experiments.compose import experiment_names
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Records
from labeldp_bench.support.checkout import CHECKOUT
from papers.blockrr import figures as blockrr
from papers.figures import PaperFigure, counts, write_both, write_figure
from papers.ple import figures as ple
from papers.ple.table1 import ResponseTable
from papers.ple.text import StatedTable
from papers.site import (
    best_known,
    bits,
    comparison,
    findings,
    lost_classes,
    mechanisms,
    pictures,
)
from papers.site.summaries import read_pages
from papers.tables import TABLES, AccuracyTable, Table, write_csv, write_page
from papers.theoretical_limits import figures as theoretical_limits
from papers.theoretical_limits.table1 import ExponentTable
from papers.vector_approximation import figures as vector_approximation

FINDINGS = CHECKOUT / "docs" / "findings.md"
KINDS: dict[str, type[Table]] = {
    "accuracy": AccuracyTable,
    "exponents": ExponentTable,
    "response": ResponseTable,
    "stated": StatedTable,
}
"""{`kind` in the `table:` node of an experiment's YAML: its class}."""
ALL: tuple[PaperFigure, ...] = (
    *blockrr.ALL,
    *ple.ALL,
    *(page.paper_figure() for page in read_pages().values() if page.figure),
    *theoretical_limits.ALL,
    *vector_approximation.ALL,
)
"""The figures of experiments, each with a page."""


def load_table(name: str) -> Table:
    """Returns the table of the experiment called `name`, of the kind that its YAML names."""
    experiment = read_experiment(name)
    return KINDS[(experiment.table or {}).get("kind", "accuracy")].of(experiment)


def paper_tables() -> list[Table]:
    """Returns the table of every experiment that has a `table:` node, as the papers number them."""
    names = [name for name in experiment_names() if read_experiment(name).table is not None]

    def parts(name: str) -> list[int | str]:  # table 4 before table 10
        return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]

    return [load_table(name) for name in sorted(names, key=parts)]


def write_tables(records: Records) -> list[Table]:
    """Writes every table as CSV, Markdown and LaTeX; returns them."""
    tables = paper_tables()
    for table in tables:
        rows = table.rows(records)
        write_page(table.stem, rows, table.title, table.parts(rows))
    return tables


def write_site_tables(records: Records) -> dict[str, pd.DataFrame]:
    """Writes the pages of papers/site/tables that are tables, and the table of docs/findings.md.

    Returns:
        {stem: rows}.
    """
    pages = [page for page in read_pages().values() if not page.figure]
    rows = {page.stem: page.write(records) for page in pages}
    order = findings.order_of(rows["tuned_vs_stated"])
    write_csv(TABLES / "tuned_vs_stated_order.csv", order)
    write_text(FINDINGS, lost_classes.with_table(FINDINGS.read_text(), rows["lost_classes"]))
    return rows


def write_figures(
    records: Records, figures: tuple[PaperFigure, ...] = ALL, out: Path = papers.FIGURES
) -> None:
    """Writes every figure and prints which cells are missing, with the command that fills them."""
    total = found = 0
    for figure in figures:
        cells, done = counts(write_figure(figure, records, out))
        total, found = total + cells, found + done
        state = f"{done} of {cells} cells done" if done else f"no record of {cells}, no picture"
        fill = f"; fill: {figure.command}" if done < cells else ""
        print(f"{figure.stem}: {state}{fill}")
    print(f"{len(figures)} figures: {found} of {total} cells done, {total - found} missing")


def write_other_pictures(records: Records, out: Path = papers.FIGURES) -> None:
    """Writes the pictures of tables, findings and docs/."""
    rates = ExponentTable.of(read_experiment("theoretical_limits/table1"))
    published = read_published()
    known = best_known.rows_of(records, published)
    differences = findings.differences_of(records)
    write_csv(out / "finding_differences.csv", differences)
    written = [
        bits.write_picture(records, published, out),
        comparison.write_picture(out),
        *write_both(
            out / f"{rates.stem}_exponents", theoretical_limits.draw_exponents(rates, records)
        ),
        *write_both(out / "best_known", pictures.draw_best_known(known)),
        *pictures.write_findings(differences, out),
        mechanisms.write_picture(),
    ]
    print("pictures: " + ", ".join(path.name for path in written))
