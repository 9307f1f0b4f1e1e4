"""The report: one HTML page of what is in results/, made from those files alone.

Overview, then each paper, then findings. Nothing is loaded from elsewhere: CSS and pictures are
inside, and there is no script.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

import papers
from labeldp.support.files import write_text
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.support.checkout import CHECKOUT
from papers import tables
from papers.naming import PAPERS, method_name
from papers.site.embedding import Picture, picture_of
from papers.site.html import TEMPLATES, html_of
from papers.tables import Row

REPORT = CHECKOUT / "results" / "report.html"
DOCS = CHECKOUT / "docs"
FINDINGS = ("findings.md", "findings-ours.md", "vector-ranking.md", "findings-print.md")
OF_PAPER = {"attacks": "ple"}
"""{first word of a picture's name: its paper}, where it is not the paper's own."""
MOST_DIFFERENCES = 12
"""How many of the largest differences from print are listed."""


def write_report(path: Path = REPORT) -> Path:
    """Writes the page; the same records, tables and pictures give the same bytes."""
    numbers = printed_numbers()
    pictures = {each: picture_of(each) for each in sorted(papers.FIGURES.glob("*.png"))}
    files = sorted(tables.TABLES.glob("*.md"), key=lambda path: _in_order(path.stem))
    pages = {path.stem: html_of(path.read_text()) for path in files}
    page = TEMPLATES.get_template("report.html.j2").render(
        counts=_counts(numbers),
        heading_of=_heading,
        differences=_largest_differences(numbers),
        sections=[_section(name, title, pages, pictures) for name, title in PAPERS.items()],
        overview=_section(None, "Overview", pages, pictures),
        findings=Markup().join(html_of((DOCS / name).read_text()) for name in FINDINGS),
        audits=html_of((DOCS / "audits.md").read_text()),
        hardware=_hardware(pd.DataFrame(read_committed().values())),
    )
    write_text(path, page)
    return path


def printed_numbers() -> pd.DataFrame:
    """Returns the printed numbers of all tables, with ours where it is known.

    The rows of the tables' CSV files, with stem (of the file) and state: `paper` (ours at paper
    budget is beside it), `smaller` (ours at a smaller budget alone) or `missing`.
    """
    keys = ["stem", "dataset", "method", "eps", "class"]
    files = sorted(tables.TABLES.glob("*.csv"), key=lambda path: _in_order(path.stem))
    found = [pd.read_csv(path).assign(stem=path.stem) for path in files]
    rows = pd.concat([frame for frame in found if {"published", "budget"} <= {*frame.columns}])
    smaller = rows.loc[rows.budget != PAPER, keys].drop_duplicates().assign(smaller=True)
    rows = rows[rows.published.notna()].merge(smaller, how="left", on=keys)
    state = rows.smaller.map({True: "smaller"}).fillna("missing")
    return rows.assign(state=state.mask(rows.n > 0, "paper"))


def _counts(numbers: pd.DataFrame) -> pd.DataFrame:
    """Returns how many printed numbers of each table are in each state."""
    counts = pd.crosstab(numbers.stem, numbers.state)
    in_order = sorted(counts.index, key=_in_order)
    return counts.reindex(in_order, columns=["paper", "smaller", "missing"], fill_value=0)


def _largest_differences(numbers: pd.DataFrame) -> list[Row]:
    """Returns the rows that are farthest from print, the farthest first."""
    rows = numbers[numbers.difference.notna() & numbers.usable]
    rows = rows.iloc[rows.difference.abs().argsort(kind="stable")[::-1]][:MOST_DIFFERENCES]
    names = rows.method.map(method_name)
    return rows.assign(method=names, where=rows.stem.map(_heading)).to_dict("records")


def _section(
    paper: str | None, title: str, pages: Mapping[str, Markup], pictures: Mapping[Path, Picture]
) -> dict[str, Any]:
    """Returns the tables and pictures of a paper, or of none."""
    return {
        "title": title,
        "short": title.partition(" (")[0],
        "tables": [(stem, _heading(stem), text) for stem, text in pages.items()
                   if _paper_of(stem) == paper],
        "pictures": [one for path, one in pictures.items() if _paper_of(path.stem) == paper],
    }  # fmt: skip


def _paper_of(stem: str) -> str | None:
    """Returns the paper that a file belongs to; None where it is about all of them."""
    own = OF_PAPER.get(stem.partition("_")[0])
    return own or next((name for name in PAPERS if stem.startswith(f"{name}_")), None)


def _in_order(stem: str) -> list[tuple[int, str]]:
    """Returns a key that sorts table 4 before table 10."""
    return [(int(part or 0), text) for text, part in re.findall(r"(\D+)(\d*)", stem)]


def _heading(stem: str) -> str:
    """Returns what a table is called: `PLE, table 1`, or its own name where it is of no paper."""
    paper = _paper_of(stem)
    if paper is None:
        return stem.replace("_", " ").capitalize()
    short = PAPERS[paper].partition(" (")[0]
    return f"{short}, {stem.removeprefix(f'{paper}_').replace('table', 'table ')}"


def _hardware(records: pd.DataFrame) -> list[Row]:
    """Returns how many runs and hours each device spent, by version of torch and by budget."""
    grouped = records.fillna({"budget": PAPER}).groupby(["device", "torch_version", "budget"])
    sums = grouped.wall_seconds.agg(runs="size", seconds="sum").reset_index()
    return sums.assign(hours=sums.seconds / 3600).to_dict("records")
