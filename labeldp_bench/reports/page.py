"""The report: one HTML page of everything, a pure function of what is committed.

Nothing is loaded from elsewhere: CSS and pictures are inside, and there is no script.
"""

import base64
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markdown_it import MarkdownIt

from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_with_classes
from labeldp_bench.reports.tables import AccuracyTable, Table, paper_tables
from labeldp_bench.reports.tables.layout import label
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.files import write_text

REPORT = CHECKOUT / "results" / "report.html"
FIGURES = CHECKOUT / "results" / "figures"
DOCS = CHECKOUT / "docs"
STYLE = Path(__file__).with_suffix(".css")
PAPERS = {
    "vector_approximation": "Vector approximation (Zhao et al. 2025)",
    "blockrr": "BlockRR (Liu, Ding 2026)",
    "ple": "Protective label enhancement",
    "theoretical_limits": "Theoretical limits (Zhao et al. 2025)",
}
LARGEST = 12
"""How many disagreements are listed."""


@dataclass(frozen=True)
class Shown:
    """A table with its rows, and how many of its printed numbers have ours beside them."""

    table: Table
    rows: pd.DataFrame

    @property
    def is_runs(self) -> bool:
        """Whether runs fill it; else it is arithmetic."""
        return isinstance(self.table, AccuracyTable)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many printed numbers are reproduced at paper budget, quick alone, or not at all."""
        printed = self.rows[self.rows.published.notna()]
        done = printed.n > 0
        keys = ["dataset", "method", "eps", "class"]
        quick = self.rows[self.rows.budget != PAPER][keys].apply(tuple, axis=1)
        known = set(map(str, quick))
        less = [str(key) in known for key in printed[keys].apply(tuple, axis=1)]
        only = int((~done & pd.Series(less, index=printed.index, dtype=bool)).sum())
        return int(done.sum()), only, len(printed) - int(done.sum()) - only


def write_page(path: Path = REPORT) -> Path:
    """Writes the report; the same records, tables and pictures give the same bytes."""
    records = read_with_classes()
    shown = [Shown(table, table.rows(records)) for table in paper_tables()]
    sections = {
        "Reproduced so far": "".join(_overview(shown)),
        "Findings": _document(DOCS / "findings.md"),
        "Tables": "".join(_tables(shown)),
        "Figures": "".join(_figures()),
        "Audits": _document(DOCS / "audits.md"),
        "Hardware": _hardware(records),
    }
    links = "".join(f'<a href="#{_anchor(name)}">{name}</a>' for name in sections)
    body = "".join(
        f'<h2 id="{_anchor(name)}">{name}</h2>\n{text}\n' for name, text in sections.items()
    )
    write_text(
        path,
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>labeldp_bench: report</title>\n<style>\n{STYLE.read_text()}</style>\n</head>\n"
        "<body>\n<h1>Learning with label differential privacy: ours beside the papers</h1>\n"
        '<p class="lead">The features are public, the labels are secret; each is randomised once '
        "with a budget eps. What four papers print, what this benchmark measures, and where the "
        f"two differ.</p>\n<nav>{links}</nav>\n{body}</body>\n</html>\n",
    )
    return path


def _overview(shown: list[Shown]) -> Iterator[str]:
    counted = [(each, each.counts) for each in shown if each.is_runs]
    paper, quick, missing = (sum(counts[n] for _, counts in counted) for n in range(3))
    runs = {c.config_hash: c for each in shown for c in each.table.experiment.cells()}
    tiles = {
        "printed numbers with ours beside them, at paper budget": paper,
        "with a quick version alone": quick,
        "without any": missing,
        "runs that fill all tables": len(runs),
    }
    inner = (
        f'<div class="tile"><b>{number:,}</b><span>{text}</span></div>'
        for text, number in tiles.items()
    )
    yield f'<div class="tiles">{"".join(inner)}</div>\n'
    rows = []
    for each, (done, less, none) in counted:
        total = max(1, done + less + none)
        bar = (
            f'<div class="bar"><i style="width:{100 * done / total:.1f}%"></i>'
            f'<i class="less" style="width:{100 * less / total:.1f}%"></i></div>'
        )
        title = PAPERS.get(each.table.paper, each.table.paper).partition(" (")[0]
        link = f'<a href="#{each.table.stem}">{html.escape(title)}, {each.table.number}</a>'
        rows.append(f"<tr><td>{link}</td><td>{done}</td><td>{less}</td><td>{none}</td>")
        rows.append(f"<td>{bar}</td></tr>\n")
    heads = ("table", "paper", "quick", "missing", "")
    yield _scrolled(heads, "".join(rows))
    yield "<h3>Largest differences from print</h3>\n"
    yield _disagreements(shown)


def _disagreements(shown: list[Shown]) -> str:
    frames = [
        each.rows.assign(where=f"{each.table.paper}, table {each.table.number}")
        for each in shown
        if each.is_runs
    ]
    rows = pd.concat(frames)
    rows = rows[rows.difference.notna() & rows.usable.astype(bool)]
    rows = rows.iloc[rows.difference.abs().argsort(kind="stable")[::-1]][:LARGEST]
    if rows.empty:
        return "<p>No printed number has ours beside it yet.</p>\n"
    lines = "".join(
        f"<tr><td>{html.escape(label(row['method']))}</td><td>{row['eps']:g}</td>"
        f"<td>{row['ours']:.1f}</td><td>{row['published']:g}</td>"
        f"<td{' class=marked' if row['marked'] else ''}>{row['difference']:+.1f}</td>"
        f"<td>{row['n']}</td><td>{html.escape(row['dataset'])}</td>"
        f"<td>{html.escape(row['where'])}</td></tr>\n"
        for row in rows.to_dict("records")
    )
    heads = ("method", "eps", "ours", "paper", "difference", "seeds", "data", "table")
    note = (
        '<p class="note">With one seed a difference is no disagreement yet; with more, those '
        "beyond twice their standard error are coloured. Reasons, where known: Findings.</p>\n"
    )
    return _scrolled(heads, lines) + note


def _tables(shown: list[Shown]) -> Iterator[str]:
    for paper in dict.fromkeys(each.table.paper for each in shown):
        yield f"<h3>{html.escape(PAPERS.get(paper, paper))}</h3>\n"
        for each in shown:
            if each.table.paper != paper:
                continue
            done = sum(each.counts[:2]) if each.is_runs else 1
            text = each.table.markdown(each.rows).split("\n", 1)[1]
            small = "" if done else "<small>no run yet</small>"
            yield (
                f'<details id="{each.table.stem}"{" open" if done else ""}><summary>Table '
                f"{each.table.number}{small}</summary>\n{_rendered(text)}</details>\n"
            )


def _figures() -> Iterator[str]:
    found = False
    for path in sorted(FIGURES.glob("*.png")):
        found = True
        data = base64.b64encode(path.read_bytes()).decode()
        said = path.with_suffix(".md")
        name = path.stem.replace("_", " ")
        yield (
            f'<figure><img alt="{name}" src="data:image/png;base64,{data}">'
            f"<figcaption>{name}</figcaption></figure>\n"
        )
        if said.is_file():
            yield f"<details><summary>{name}: what the paper says of it</summary>"
            yield f"{_rendered(said.read_text().split(chr(10), 1)[1])}</details>\n"
    if not found:
        yield "<p>No figure has a record yet.</p>\n"


def _hardware(records: dict[str, dict[str, Any]]) -> str:
    rows = pd.DataFrame(records.values())
    if rows.empty:
        return "<p>No record yet.</p>\n"
    grouped = rows.groupby(["device", "torch_version", "budget"], dropna=False)
    lines = "".join(
        f"<tr><td>{html.escape(str(device))}</td><td>{html.escape(str(version))}</td>"
        f"<td>{budget if isinstance(budget, str) else PAPER}</td><td>{len(group)}</td>"
        f"<td>{group.wall_seconds.sum() / 3600:.1f}</td></tr>\n"
        for (device, version, budget), group in grouped
    )
    return _scrolled(("device", "torch", "budget", "runs", "hours"), lines)


def _document(path: Path) -> str:
    """Returns a page of docs/ without its title; empty if it is not there."""
    return _rendered(path.read_text().split("\n", 1)[1]) if path.is_file() else ""


def _rendered(text: str) -> str:
    """Returns Markdown as HTML: smaller headings, tables that scroll, no links out of the page."""
    out = MarkdownIt("commonmark").enable("table").render(text)
    out = re.sub(r"<(/?)h(\d)>", lambda m: f"<{m[1]}h{int(m[2]) + 1}>", out)
    out = re.sub(r'<a href="[^#"][^"]*">(.*?)</a>', r"\1", out, flags=re.S)
    out = re.sub(r"<img [^>]*>", "", out)
    out = re.sub(r"<tr>\n<td[^>]*>[^<]*</td>\n<td[^>]*>(ours|paper|difference)( \(\w+\))?</td>",
                 lambda m: m[0].replace("<tr>", f'<tr class="{"quick" if m[2] else m[1]}">'),
                 out)  # fmt: skip
    out = re.sub(r"<td([^>]*)>([+-][\d.]+)\*</td>", r'<td class="marked"\1>\2*</td>', out)
    out = re.sub(r"<td([^>]*)>([^<]{45,})</td>", r'<td class="wide"\1>\2</td>', out)
    return out.replace("<table>", '<div class="scroll"><table>').replace(
        "</table>", "</table></div>"
    )


def _scrolled(heads: tuple[str, ...], rows: str) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>'
        "</div>\n"
    )


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
