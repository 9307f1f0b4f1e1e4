"""The report: self-contained, the same bytes each time, no quick cell as the paper's."""

import re

import pytest

from labeldp_bench.reports import page as report
from labeldp_bench.reports.page import Shown, write_page
from labeldp_bench.reports.rendering import html_of
from labeldp_bench.reports.tables.base import load_table
from tests.reports.test_tables import record_of


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A report of two tables, written twice."""
    names = ("vector_approximation/table1b", "ple/table1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "paper_tables", lambda: [load_table(name) for name in names])
        folder = tmp_path_factory.mktemp("report")
        return [write_page(folder / f"{n}.html").read_bytes() for n in (1, 2)]


def test_same_records_give_the_same_bytes(small):
    assert small[0] == small[1]


def test_nothing_is_loaded_from_elsewhere(small):
    # The page would be empty without a network, or tell somebody who reads it.
    text = small[0].decode()
    assert not re.findall(r"https?://|<script|<link|@import|url\(", text)
    sources = re.findall(r'(?:src|href)="([^"]{1,30})', text)
    assert sources and all(x.startswith(("#", "data:image/png;base64,")) for x in sources)
    targets = set(re.findall(r'href="#([^"]+)"', text))
    assert targets <= set(re.findall(r'id="([^"]+)"', text))


def test_it_holds_tables_and_findings(small):
    text = small[0].decode()
    assert 'name="viewport"' in text and "<h3>1. The vector" in text
    assert re.search(r'<tr class="paper">\n<td[^>]*></td>\n<td[^>]*>paper</td>', text)
    assert text.count("<table>") == text.count('<div class="scroll"><table>')


def test_a_value_is_text_wherever_it_comes_from(tmp_path, monkeypatch):
    # A record that somebody sends would run its script in the browser of whoever reads the page.
    evil, seen = "<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"
    record = {"device": evil, "torch_version": evil, "budget": evil, "wall_seconds": 1.0}
    monkeypatch.setattr(
        report, "paper_tables", lambda: [load_table("vector_approximation/table1b")]
    )
    monkeypatch.setattr(report, "read_with_classes", lambda: {"0": record})
    text = write_page(tmp_path / "page.html").read_text()
    assert text.count(seen) == 3 and evil not in text
    page = html_of(f"# title\n\n| a |\n|---|\n| {evil} |\n\n[out](http://x) ![]({evil})\n\n{evil}")
    assert page.count(seen) == 2 and evil not in page and "http" not in page


def test_quick_cells_are_counted_apart():
    # A page would claim numbers that were never trained as the paper says.
    table = load_table("blockrr/table3")
    paper, quick = table.experiment.cells()[0], table.experiment.cells("quick")[5]
    records = {
        paper.config_hash: record_of(paper, budget="paper"),
        quick.config_hash: record_of(quick, budget="quick"),
    }
    assert Shown(table, table.rows(records)).counts == (1, 1, 25)
    assert Shown(table, table.rows({})).counts == (0, 0, 27)
