"""The report: self-contained, the same bytes each time, no quick cell as the paper's."""

import re
import shutil

import pytest

from labeldp_bench.support.checkout import CHECKOUT
from papers.catalog import load_table
from papers.site import page as report
from papers.site.embedding import alt_of, title_of
from papers.site.html import html_of
from papers.site.page import Shown, write_page
from tests.papers.test_tables import record_of


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A report of two tables, written twice."""
    names = ("vector_approximation/table1b", "ple/table1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "paper_tables", lambda: [load_table(name) for name in names])
        folder = tmp_path_factory.mktemp("report")
        for name in ("best_known.png", "ple_figure3.png", "ple_figure3.md"):  # of twenty
            shutil.copy(report.FIGURES / name, folder)
        patch.setattr(report, "FIGURES", folder)
        return [write_page(folder / f"{n}.html").read_bytes() for n in (1, 2)]


def test_same_records_give_the_same_bytes(small):
    assert small[0] == small[1]


def test_nothing_is_loaded_from_elsewhere(small):
    # The page would be empty without a network, or tell somebody who reads it.
    text = small[0].decode()
    assert not re.findall(r"https?://|<script|<link|@import|url\(", text)
    sources = re.findall(r'(?:src|href)="([^"]{1,30})', text)
    own = ("#", "data:image/webp;base64,", "leaderboard.html")  # made beside it
    assert sources and all(x.startswith(own) for x in sources)
    targets = set(re.findall(r'href="#([^"]+)"', text))
    assert targets <= set(re.findall(r'id="([^"]+)"', text))


def test_it_holds_tables_and_findings(small):
    text = small[0].decode()
    heads = re.findall(r'<h2 id="([^"]+)"', text)
    assert heads[:2] == ["overview", "vector-approximation"]
    assert heads[-3:] == ["findings", "audits", "hardware"]
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
    monkeypatch.setattr(report, "FIGURES", tmp_path)
    text = write_page(tmp_path / "page.html").read_text()
    assert text.count(seen) == 3 and evil not in text
    page = html_of(f"# title\n\n| a |\n|---|\n| {evil} |\n\n[out](http://x) ![]({evil})\n\n{evil}")
    assert page.count(seen) == 2 and evil not in page and "http" not in page


def test_every_picture_says_in_words_what_it_shows(small):
    # Somebody who hears the page would hear `vector approximation figure2`.
    alts = re.findall(r'<img alt="([^"]*)"', small[0].decode())
    alts += [alt_of(path) for path in report.FIGURES.glob("*.png")]
    assert len(alts) > 12 and all(len(alt.split()) > 8 for alt in alts)
    for page in sorted([*(CHECKOUT / "docs").rglob("*.md"), CHECKOUT / "README.md"]):
        for alt in re.findall(r"!\[([^\]]*)\]\(", page.read_text()):
            assert len(alt.split()) > 3, f"{page.name}: {alt!r}"


def test_a_picture_is_headed_by_its_title(small):
    # `ple figure3: what the paper says of it` stood there, the name of a file.
    text = small[0].decode()
    assert re.findall("<figcaption>(.*?)</figcaption>", text) == [
        "Best known accuracy at each eps, a panel per data set<small>best_known.png</small>",
        "Server of PLE (no guarantee) with its objective and with plain cross entropy"
        "<small>ple_figure3.png</small>",
    ]
    titles = {path.stem: title_of(path) for path in report.REPORT.parent.glob("figures/*.png")}
    assert len(titles) > 12 and all(len(title.split()) > 2 for title in titles.values())
    assert len({*titles.values()}) == len(titles)


def test_the_committed_page_is_small():
    assert report.REPORT.stat().st_size < 2_000_000


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
