"""`labeldp monitor`, `leak` and `report`: what changed, what features tell, one page."""

import re

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.monitoring import changes
from labeldp.support.validate import InputError

ID = ["--row-id", "person"]


def released(share, seed, rows=1000):
    labels = (np.random.default_rng(seed).random(rows) < share).astype(int)
    return ldp.privatize(labels, classes=[0, 1], eps=2.0, mechanism="rr", seed=seed)


def test_a_test_for_a_change_is_wrong_as_seldom_as_it_says():
    # With variances of labels in place of those of releases it would cry wolf every other time.
    wolves = sum(
        changes([released(0.3, 3 * seed + part, 300) for part in range(3)])[1].p_value < 0.05
        for seed in range(80)
    )
    assert wolves < 12
    assert changes([released(0.3, 1), released(0.45, 2)])[1].p_value < 1e-3
    with pytest.raises(InputError, match="two releases"):
        changes([released(0.3, 1)])
    whole = released(0.3, 1)
    with pytest.raises(InputError, match="100 rows"):  # which would look like no change
        changes([whole[:600], whole[500:]])


@pytest.fixture
def seasons(tmp_path, monkeypatch):
    """A folder with releases of two seasons, their features, and a model of an earlier one."""
    monkeypatch.chdir(tmp_path)
    stream = np.random.default_rng(0)
    for name, shift in (("past", 0.0), ("spring", 0.0), ("autumn", 1.5)):
        table = pd.DataFrame({"x": stream.normal(size=800), "z": stream.normal(size=800)})
        table["person"] = [f"{name}{n}" for n in range(800)]
        chance = 1 / (1 + np.exp(shift + 1 - 3 * table.x))
        table["y"] = np.where(stream.random(800) < chance, "yes", "no<b>")
        table.to_csv(f"{name}.all.csv", index=False)
        table.drop(columns="y").to_csv(f"{name}.csv", index=False)
        release = ["release", f"{name}.all.csv", "--label", "y", "--classes", "no<b>,yes"]
        release += ["--eps", "3", "--out", f"{name}.parquet", "--seed", str(len(name))]
        assert main([*release, *ID]) == 0
    assert main(["fit", "past.csv", "--release", "past.parquet", "--out", "m.skops", *ID]) == 0


def test_shares_and_accuracy_over_time(seasons, tmp_path, capsys):
    capsys.readouterr()
    monitor = ["monitor", "spring.parquet", "autumn.parquet", *ID]
    model = ["--model", "m.skops", "--features", "spring.csv"]
    assert main([*monitor, *model, "--features", "autumn.csv"]) == 0
    printed = capsys.readouterr().out
    change = re.search(r"share of yes \(no change: p=(\S+)\)", printed)
    assert change is not None and float(change[1]) < 1e-3
    assert "accuracy (no change" in printed and printed.count("autumn.parquet: 0.") == 3
    assert (tmp_path / "monitor.png").stat().st_size > 5000
    assert main([*monitor, *model]) == 2
    assert "got 1" in capsys.readouterr().err


def test_what_features_tell(seasons, capsys):
    capsys.readouterr()
    leak = ["leak", "past.csv", "--release", "past.parquet", *ID]
    assert main(leak) == 0
    printed = capsys.readouterr().out
    assert "features tell labels" in printed
    auc = re.search(r"linear model: .*AUC (\S+) ", printed)
    assert auc is not None and float(auc[1]) > 0.85
    assert main([*leak, "--drop", "x"]) == 0
    assert "cannot be seen" in capsys.readouterr().out


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
