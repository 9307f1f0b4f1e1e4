"""`labeldp report`: one page."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main

ID = ["--row-id", "person"]


@pytest.fixture
def seasons(tmp_path, monkeypatch):
    """A folder with two releases and their features, and a model of the first."""
    monkeypatch.chdir(tmp_path)
    stream = np.random.default_rng(0)
    for name in ("past", "spring"):
        table = pd.DataFrame({"x": stream.normal(size=800), "z": stream.normal(size=800)})
        table["person"] = [f"{name}{n}" for n in range(800)]
        chance = 1 / (1 + np.exp(1 - 3 * table.x))
        table["y"] = np.where(stream.random(800) < chance, "yes", "no<b>")
        table.to_csv(f"{name}.all.csv", index=False)
        table.drop(columns="y").to_csv(f"{name}.csv", index=False)
        release = ["release", f"{name}.all.csv", "--label", "y", "--classes", "no<b>,yes"]
        release += ["--eps", "3", "--out", f"{name}.parquet", "--seed", str(len(name))]
        assert main([*release, *ID]) == 0
    assert main(["fit", "past.csv", "--release", "past.parquet", "--out", "m.skops", *ID]) == 0


def test_a_page_of_a_release_and_a_model(seasons, tmp_path, capsys):
    report = ["report", "spring.parquet", "--model", "m.skops", *ID]
    assert main([*report, "--features", "spring.csv"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "800 labels released by rr" in page and "roc auc" in page and "<svg" in page
    assert "calibration error" in page.split("<svg")[0]  # and what is read next comes below
    assert "log loss" in page.split("</svg>")[1] and page.count("log loss") == 1
    assert "share of no&lt;b&gt;" in page and "no<b>" not in page  # names come from others
    assert main(report) == 2
    past = ["report", "past.parquet", "--model", "m.skops", "--features", "past.csv", *ID]
    assert main([*past, "--out", "n.html"]) == 2
    assert not (tmp_path / "n.html").exists()


def test_a_page_says_what_eps_promises_and_to_whom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = ["no", "yes"] * 50
    for name, unit in (("rows", {}), ("persons", {"persons": [f"p{n // 2}" for n in range(102)]})):
        labels += ["no", "yes"] * bool(unit)
        release = ldp.privatize(labels, classes=["no", "yes"], eps=1.0, **unit)
        release.save(tmp_path / f"{name}.parquet")
        page = tmp_path / f"{name}.html"
        assert main(["report", f"{name}.parquet", "--out", str(page)]) == 0
        assert "factor of at most 2.72" in page.read_text()
        assert ("several rows" in page.read_text()) == (name == "rows")
    ldp.privatize(["no"] * 9, classes=["no", "yes"], eps=1.0, seed=0).save(tmp_path / "s.parquet")
    assert main(["report", "s.parquet", "--out", "s.html"]) == 0
    assert "factor of at most" not in (tmp_path / "s.html").read_text()  # seeded noise


def test_a_page_names_the_label_the_date_and_the_rows_left_out(tmp_path, monkeypatch):
    # Of a page without them nobody knew later what it was of.
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"who": [0] * 5 + [*range(1, 46)], "ill<i>": ["no", "yes"] * 25})
    table.to_csv("s.csv", index=False)
    before = datetime.now(UTC).date().isoformat()
    release = ["release", "s.csv", "--label", "ill<i>", "--classes", "no,yes", "--eps", "1"]
    assert main([*release, "--unit", "who", "--most-rows", "2", "--out", "r.parquet"]) == 0
    assert before <= ldp.load_release("r.parquet").manifest.date
    assert main(["report", "r.parquet", "--out", "p.html"]) == 0
    page = (tmp_path / "p.html").read_text()
    assert ldp.load_release("r.parquet").manifest.date in page
    assert "ill&lt;i&gt;" in page and "3 of the 50 rows" in page
