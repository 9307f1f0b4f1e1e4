"""The report: self-contained, the same bytes each time, no quick cell as the paper's."""

import re
import shutil

import pandas as pd
import pytest

import papers
from papers import tables
from papers.site import pages
from papers.site.pages import html_of, pictures, published_numbers, write_report

EVIL, SEEN = "<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A report of a few tables and figures, written twice."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("report")
        for stem in ("vector_approximation_table2", "ple_table1", "best_known"):
            for end in ("csv", "md"):
                shutil.copy(tables.TABLES / f"{stem}.{end}", folder)
        for name in ("best_known.png", "ple_figure3.png", "ple_figure3.md"):  # of twenty
            (folder / "figures").mkdir(exist_ok=True)
            shutil.copy(papers.FIGURES / name, folder / "figures")
        patch.setattr(tables, "TABLES", folder)
        patch.setattr(papers, "FIGURES", folder / "figures")
        return [write_report(folder / f"{n}.html").read_text() for n in (1, 2)]


def test_the_same_files_give_the_same_bytes(small):
    assert small[0] == small[1]


def test_nothing_is_loaded_from_elsewhere(small):
    # The page would be empty without a network, or tell somebody who reads it.
    assert not re.findall(r"https?://|<script|<link|@import|url\(", small[0])
    sources = re.findall(r'(?:src|href)="([^"]{1,30})', small[0])
    own = ("#", "data:image/webp;base64,")
    assert sources and all(x.startswith(own) for x in sources)
    targets = set(re.findall(r'href="#([^"]+)"', small[0]))
    assert targets <= set(re.findall(r'id="([^"]+)"', small[0]))


def test_it_holds_tables_pictures_and_findings(small):
    heads = re.findall(r'<h2 id="([^"]+)"', small[0])
    assert heads[:2] == ["overview", "vector-approximation"]
    assert heads[-3:] == ["findings", "audits", "hardware"]
    assert re.search(r'<tr class="paper">\n<td[^>]*></td>\n<td[^>]*>paper</td>', small[0])
    assert small[0].count("<table>") == small[0].count('<div class="scroll"><table>')
    assert "<summary>Vector approximation, table 2</summary>" in small[0]
    assert len(re.findall("<figcaption>", small[0])) == 2


def test_a_value_is_text_wherever_it_comes_from(tmp_path, monkeypatch):
    # A record that somebody sends would run its script in the browser of whoever reads the page.
    record = {"device": EVIL, "torch_version": EVIL, "budget": EVIL, "wall_seconds": 1.0}
    shutil.copy(tables.TABLES / "blockrr_table3.csv", tmp_path)
    monkeypatch.setattr(pages, "read_committed", lambda: {"0": record})
    monkeypatch.setattr(tables, "TABLES", tmp_path)
    monkeypatch.setattr(papers, "FIGURES", tmp_path)
    text = write_report(tmp_path / "page.html").read_text()
    assert text.count(SEEN) == 3 and EVIL not in text
    page = html_of(f"# title\n\n| a |\n|---|\n| {EVIL} |\n\n[out](http://x) ![]({EVIL})\n\n{EVIL}")
    assert page.count(SEEN) == 2 and EVIL not in page and "http" not in page


def test_every_picture_has_a_title_and_says_in_words_what_it_shows(monkeypatch):
    # Somebody who hears the page would hear `vector approximation figure2`.
    monkeypatch.setattr(pages, "_data_of", str)  # to write them takes three seconds
    shown = pictures()
    assert set(shown) == {path.stem for path in papers.FIGURES.glob("*.png")}
    assert len({picture.title for picture in shown.values()}) == len(shown)
    assert all(len(picture.alt.split()) > 8 for picture in shown.values())


def test_quick_cells_are_counted_apart(tmp_path, monkeypatch):
    # A page would claim numbers that were never trained as the paper says.
    columns = ["dataset", "method", "eps", "class", "published", "n", "budget"]
    rows = [
        ("mnist", "rr", 1, "", 90.0, 1, "paper"),
        ("mnist", "rr", 2, "", 91.0, 0, "paper"),
        ("mnist", "rr", 2, "", "", 3, "quick"),
        ("mnist", "rr", 3, "", 92.0, 0, "paper"),
        ("mnist", "rr", 4, "", "", 1, "paper"),
        ("cifar10", "rr", 5, "", 93.0, 0, "paper"),
        ("cifar10", "rr", 5, "", "", 5, "features"),
    ]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "blockrr_table3.csv", index=False)
    monkeypatch.setattr(tables, "TABLES", tmp_path)
    assert published_numbers().state.tolist() == ["paper", "smaller", "missing", "features"]
