"""The report: an HTML page that loads nothing from elsewhere.

It has an overview, the tables and pictures of each paper, findings, audits and hardware, from the
files in results/ and docs/.
"""

import base64
import io
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markupsafe import Markup
from PIL import Image

import papers
from labeldp.support.files import write_text
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.support.checkout import CHECKOUT
from papers import tables
from papers.naming import FEATURES_BUDGET, PAPERS
from papers.tables import Row

REPORT = CHECKOUT / "results" / "report.html"
DOCS = CHECKOUT / "docs"
FINDINGS = ("findings.md", "differences.md")
TEMPLATES = Environment(
    loader=PackageLoader("papers.site"),
    autoescape=lambda name: name is not None and name.endswith(".html.j2"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
STATES = ["paper", "smaller", FEATURES_BUDGET, "missing"]
"""Of a published number."""
WIDEST = 1088
"""Pixels of a picture: as wide as a page."""
WIDE = 45
"""Characters from which on a cell of a table may break into lines."""
KIND_OF_LINE = re.compile(r"(ours|paper|difference)(?: \((\w+)\))?")
"""Second cell of a row in a paper's table: its kind, and its budget if not the paper's."""
SIGNIFICANT = re.compile(r"[+-][\d.]+\*")
OWN_PAGE = re.compile(r"!\[([^\]]+)\]\([^)]*\)\n\n(.*)")
"""A picture's own page: its title, and the paragraph below it."""
IN_DOCS = re.compile(r"!\[([^\]]+)\]\(\.\./results/figures/([^)]+)\.png\)")
"""A picture on a page of docs/: what it shows, and its name."""


def _fit_into_page(state: StateCore) -> None:
    """Makes headings smaller; gives rows and cells of tables the classes that page.css knows."""
    for token, following in pairwise([*state.tokens, Token("end", "", 0)]):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{int(token.tag[1]) + 1}"
        elif token.type == "tr_open":
            row, place = token, 0
        elif token.type == "td_open":
            place, text = place + 1, following.content
            if place == 2 and (kind := KIND_OF_LINE.fullmatch(text)):
                row.attrSet("class", kind[2] or kind[1])
            if SIGNIFICANT.fullmatch(text):
                token.attrSet("class", "marked")
            elif len(text) >= WIDE:
                token.attrSet("class", "wide")


# HTML in the Markdown of records and notes is text. Links and pictures would lead out of the page.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
MARKDOWN.core.ruler.push("fit_into_page", _fit_into_page)
MARKDOWN.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>\n')
MARKDOWN.add_render_rule("table_close", lambda *_: "</table></div>\n")
for rule in ("link_open", "link_close", "image"):
    MARKDOWN.add_render_rule(rule, lambda *_: "")


def html_of(markdown: str) -> Markup:
    """Returns Markdown as HTML, without its first line, the title."""
    return Markup(MARKDOWN.render(markdown.partition("\n")[2]))


class Picture(NamedTuple):
    """A picture of the report.

    Attributes:
        title: its message, in one line.
        file: its name in results/figures.
        alt: a description for a reader who does not see it.
        data: a `data:` address that holds the picture.
        text: its page of numbers as HTML; empty where it has none.
    """

    title: str
    file: str
    alt: str
    data: str
    text: Markup


def pictures() -> dict[str, Picture]:
    """Returns {name: picture} of those in results/figures that have a page or are on one."""
    texts = "\n".join(page.read_text() for page in sorted(DOCS.glob("*.md")))
    in_docs = {name: alt for alt, name in IN_DOCS.findall(texts)}
    found = {}
    for path in sorted(papers.FIGURES.glob("*.png")):
        page = path.with_suffix(".md")
        text = page.read_text() if page.is_file() else ""
        if own := OWN_PAGE.search(text):
            title, alt = own[1], own[2].strip()
        elif alt := in_docs.get(path.stem, ""):
            title = re.split(r"[.:;] ", alt)[0].rstrip(".")
        else:
            continue
        found[path.stem] = Picture(
            title, path.name, alt, _data_of(path), html_of(text) if text else Markup()
        )
    return found


def _data_of(path: Path) -> str:
    """Returns a picture as WebP in a `data:` address, at most as wide as a page."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    picture.thumbnail((WIDEST, picture.height), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    picture.save(written, "webp", quality=70, method=6)
    return f"data:image/webp;base64,{base64.b64encode(written.getvalue()).decode()}"


def write_report(path: Path = REPORT) -> Path:
    """Writes the report; the same records, tables and pictures give the same bytes."""
    numbers = published_numbers()
    counts = pd.crosstab(numbers.stem, numbers.state)
    in_order = sorted(counts.index, key=_in_order)
    shown = pictures()
    files = sorted(tables.TABLES.glob("*.md"), key=lambda file: _in_order(file.stem))
    pages = {file.stem: html_of(file.read_text()) for file in files}
    text = TEMPLATES.get_template("report.html.j2").render(
        counts=counts.reindex(in_order, columns=STATES, fill_value=0),
        heading_of=_heading,
        sections=[_section(name, title, pages, shown) for name, title in PAPERS.items()],
        overview=_section(None, "Overview", pages, shown),
        findings=Markup().join(html_of((DOCS / name).read_text()) for name in FINDINGS),
        audits=html_of((DOCS / "audits.md").read_text()),
        hardware=_hardware(pd.DataFrame(read_committed().values())),
    )
    write_text(path, text)
    return path


def published_numbers() -> pd.DataFrame:
    """Returns the published numbers of all tables, with ours where it is known.

    The rows of the tables' CSV files, with stem (of the file) and state: `paper` (ours at paper
    budget is beside it), `smaller` (ours only at a smaller budget), `features` (ours only on a
    public encoder) or `missing`.
    """
    keys = ["stem", "dataset", "method", "eps", "class"]
    files = sorted(tables.TABLES.glob("*.csv"), key=lambda path: _in_order(path.stem))
    found = [pd.read_csv(path).assign(stem=path.stem) for path in files]
    # A table of arithmetic has no budget: all that it prints is computed.
    computed = {"budget": PAPER, "n": 1}
    rows = pd.concat(
        [
            frame if "budget" in frame else frame.assign(**computed)
            for frame in found
            if "published" in frame
        ]
    )
    others = rows.loc[rows.budget != PAPER, [*keys, "budget"]]
    on_encoder = others.budget == FEATURES_BUDGET
    others["state"] = on_encoder.map({True: FEATURES_BUDGET, False: "smaller"})
    others = others.sort_values("state").drop_duplicates(keys, keep="last")  # `smaller` comes last
    rows = rows[rows.published.notna()].merge(others[[*keys, "state"]], how="left", on=keys)
    state = rows.state.fillna("missing")
    return rows.assign(state=state.mask(rows.n > 0, "paper"))


def _section(
    paper: str | None, title: str, pages: Mapping[str, Markup], shown: Mapping[str, Picture]
) -> dict[str, Any]:
    """Returns the tables and pictures of a paper, or of none."""
    own = [(stem, _heading(stem), text) for stem, text in pages.items() if _paper_of(stem) == paper]
    return {
        "title": title,
        "short": title.partition(" (")[0],
        "tables": own,
        "pictures": [one for stem, one in shown.items() if _paper_of(stem) == paper],
    }


def _paper_of(stem: str) -> str | None:
    """Returns the paper that a file belongs to; None where it is about all of them."""
    return next((name for name in PAPERS if stem.startswith(f"{name}_")), None)


def _in_order(stem: str) -> list[tuple[str, int]]:
    """Returns a key that sorts table 4 before table 10."""
    return [(text, int(part or 0)) for text, part in re.findall(r"(\D+)(\d*)", stem)]


def _heading(stem: str) -> str:
    """Returns the heading of a table: `PLE, table 1`, or its own name where it is of no paper."""
    paper = _paper_of(stem)
    if paper is None:
        return stem.replace("_", " ").capitalize()
    short = PAPERS[paper].partition(" (")[0]
    return f"{short}, {stem.removeprefix(f'{paper}_').replace('table', 'table ')}"


def _hardware(records: pd.DataFrame) -> list[Row]:
    """Returns the number of runs and hours of each device, version of torch and budget."""
    grouped = records.fillna({"budget": PAPER}).groupby(["device", "torch_version", "budget"])
    sums = grouped.wall_seconds.agg(runs="size", seconds="sum").reset_index()
    return sums.assign(hours=sums.seconds / 3600).to_dict("records")
