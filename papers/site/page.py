"""The report: one HTML page of everything, a pure function of what is committed.

Overview, then each paper, then findings. Nothing is loaded from elsewhere: CSS and pictures are
inside, and there is no script.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from labeldp.support.files import write_text
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_with_classes
from labeldp_bench.records.record import Records
from labeldp_bench.support.checkout import CHECKOUT
from papers import FIGURES
from papers.catalog import paper_tables
from papers.naming import PAPERS
from papers.site.embedding import Picture, picture_of
from papers.site.html import TEMPLATES, html_of
from papers.tables import AccuracyTable, Table

REPORT = CHECKOUT / "results" / "report.html"
DOCS = CHECKOUT / "docs"
FINDINGS = ("findings.md", "findings-ours.md", "vector-ranking.md", "findings-print.md")
OF_PAPER = {"attacks": "ple"}
"""{first word of a picture's name: its paper}, where it is not the paper's own."""
MOST_DISAGREEMENTS = 12
"""How many disagreements are listed."""


class Counts(NamedTuple):
    """Printed numbers with a value of ours at paper budget, at a smaller one alone, or without."""

    paper: int
    smaller: int
    missing: int


@dataclass(frozen=True)
class Shown:
    """A table with its rows, as the report shows it."""

    table: Table
    rows: pd.DataFrame

    @property
    def is_runs(self) -> bool:
        """Whether runs fill it; else it is arithmetic."""
        return isinstance(self.table, AccuracyTable)

    @property
    def short(self) -> str:
        """Its paper's title without authors."""
        return _short(self.table.paper)

    @cached_property
    def counts(self) -> Counts:
        """What of the printed numbers is reproduced."""
        keys = ["dataset", "method", "eps", "class"]
        printed = self.rows[self.rows.published.notna()]
        done = int((printed.n > 0).sum())
        smaller = self.rows.loc[self.rows.budget != PAPER, keys].drop_duplicates()
        alone = len(printed[printed.n == 0].merge(smaller, on=keys))
        return Counts(done, alone, len(printed) - done - alone)


def write_page(path: Path = REPORT) -> Path:
    """Writes the report; the same records, tables and pictures give the same bytes."""
    records = read_with_classes()
    shown = [Shown(table, table.rows(records)) for table in paper_tables()]
    pictures = {each: picture_of(each) for each in sorted(FIGURES.glob("*.png"))}
    page = TEMPLATES.get_template("report.html.j2").render(
        tiles=_tiles(shown),
        shown=shown,
        overview=[picture for path, picture in pictures.items() if _paper_of(path) is None],
        papers=_papers(shown, pictures),
        disagreements=_disagreements(shown),
        findings=Markup().join(_document(DOCS / name) for name in FINDINGS),
        audits=_document(DOCS / "audits.md"),
        hardware=_hardware(records),
        html_of=html_of,
    )
    write_text(path, page)
    return path


def _tiles(shown: Iterable[Shown]) -> dict[str, int]:
    """Returns the numbers that stand on top."""
    counts = [each.counts for each in shown if each.is_runs]
    runs = {cell.config_hash for each in shown for cell in each.table.experiment.cells()}
    return {
        "printed numbers with ours beside them, at paper budget": sum(c.paper for c in counts),
        "with a smaller version alone": sum(c.smaller for c in counts),
        "without any": sum(c.missing for c in counts),
        "runs that fill all tables": len(runs),
    }


def _disagreements(shown: Iterable[Shown]) -> list[dict[Hashable, Any]]:
    """Returns the rows that are farthest from print, the farthest first."""
    rows = pd.concat(
        each.rows.assign(
            where=f"{each.table.paper}, table {each.table.number}",
            method=each.rows.method.map(each.table.names),
        )
        for each in shown
        if isinstance(each.table, AccuracyTable)
    )
    rows = rows[rows.difference.notna() & rows.usable.astype(bool)]
    rows = rows.iloc[rows.difference.abs().argsort(kind="stable")[::-1]][:MOST_DISAGREEMENTS]
    return rows.to_dict("records")


def _papers(shown: Iterable[Shown], pictures: Mapping[Path, Picture]) -> list[dict[str, Any]]:
    """Returns each paper that has a table or a picture: its title, its tables, its pictures."""
    tables = list(shown)
    papers = [
        {
            "title": title,
            "short": _short(name),
            "tables": [each for each in tables if each.table.paper == name],
            "pictures": [one for path, one in pictures.items() if _paper_of(path) == name],
        }
        for name, title in PAPERS.items()
    ]
    return [paper for paper in papers if paper["tables"] or paper["pictures"]]


def _short(paper: str) -> str:
    return PAPERS.get(paper, paper).partition(" (")[0]


def _paper_of(path: Path) -> str | None:
    """Returns the paper that a picture belongs to; None where it is about all of them."""
    own = OF_PAPER.get(path.stem.partition("_")[0])
    return own or next((name for name in PAPERS if path.stem.startswith(f"{name}_")), None)


def _hardware(records: Records) -> list[dict[str, Any]]:
    """Returns how many runs and hours each device spent, by version of torch and by budget."""
    rows = pd.DataFrame(records.values())
    if rows.empty:
        return []
    grouped = rows.fillna({"budget": PAPER}).groupby(
        ["device", "torch_version", "budget"], dropna=False
    )
    sums = grouped.wall_seconds.agg(runs="size", seconds="sum").reset_index()
    return sums.assign(hours=sums.seconds / 3600).to_dict("records")


def _document(path: Path) -> Markup:
    """Returns a page of Markdown as HTML; empty if it is not there."""
    return html_of(path.read_text()) if path.is_file() else Markup()
