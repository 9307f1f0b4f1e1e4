"""The leaderboard: the rows of the best-known table, on a page that loads nothing."""

import json
import re

import pandas as pd
import pytest

from labeldp.support.validate import InputError
from papers import tables
from papers.site import pages
from papers.site.pages import LEADERBOARD, write_leaderboard

BEST_KNOWN = tables.TABLES / "best_known.csv"


def test_the_committed_rows_are_those_of_the_best_known_table():
    # A program would read other numbers than a person.
    rows, board = pd.read_csv(BEST_KNOWN), json.loads(LEADERBOARD.read_text())
    assert len(board) == len(rows)
    for row, each in zip(rows.to_dict("records"), board, strict=True):
        known = {key: value for key, value in row.items() if not pd.isna(value)}
        assert {key: each[key] for key in known} == pytest.approx(known)
        assert all(each[key] is None for key in row.keys() - known)
    page = LEADERBOARD.with_suffix(".html").read_text()
    assert page.index("<table>") < page.index('id="notes"') and len(page) < 100_000
    assert page.count("<tr>") == len(rows) + rows.dataset.nunique()


def test_text_stays_text_and_nothing_is_loaded(tmp_path, monkeypatch):
    # A note could run its script in the browser of whoever reads the page.
    evil = "<img src=x onerror=alert(1)>"
    monkeypatch.setattr(tables, "TABLES", tmp_path)
    monkeypatch.setattr(pages, "LEADERBOARD", tmp_path / "leaderboard.json")
    with pytest.raises(InputError, match=r"best_known\.csv"):
        write_leaderboard()
    (tmp_path / "best_known.csv").write_text("dataset,eps,ours\nmnist,1,\n")
    (tmp_path / "best_known.md").write_text(f"# Best\n\n{evil}\n\n| MNIST |\n|---|\n| {evil} |\n")
    assert write_leaderboard() == 1
    assert json.loads((tmp_path / "leaderboard.json").read_text()) == [
        {"dataset": "mnist", "eps": 1, "ours": None}
    ]
    text = (tmp_path / "leaderboard.html").read_text()
    assert evil not in text and text.count("&lt;img") == 2
    assert not re.findall(r"https?://|<script|<link|@import|url\(|src=\"", text)
