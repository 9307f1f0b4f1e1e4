"""What the commands make of tables: dialects, names as they are written, ids that are matched."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def release(file, *more, label="ans", classes="yes,no"):
    given = ["release", file, "--label", label, "--classes", classes, "--eps", "8"]
    return main([*given, "--out", "r.parquet", *more])


def fit(file, *more):
    return main(["fit", file, "--release", "r.parquet", "--out", "m.skops", *more])


def table(ids, file="f.csv", answers=False):
    x = np.linspace(-1, 1, len(ids))
    columns = {"id": ids, "x": x.round(4), "ans": np.where(x > 0, "yes", "no")}
    pd.DataFrame(columns).to_csv(file, index=False, columns=list(columns)[: 2 + answers])


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_another_separator_is_named_and_read(sign, capsys):
    Path("s.csv").write_text(f"ans{sign}x\nyes{sign}1,5\nno{sign}2,5\n")
    assert release("s.csv") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{sign!r} between its cells" in line and "--separator" in line and "decimal" in line
    assert release("s.csv", "--separator", sign) == 0
    assert ldp.load_release("r.parquet").row_ids.tolist() == [0, 1]
    Path("f.csv").write_text(f"a{sign}x\n" + f"1{sign}1,5\n2{sign}2,5\n" * 10)
    ldp.privatize(["yes", "no"] * 10, ["yes", "no"], 8.0, seed=0).save("f.parquet")
    capsys.readouterr()
    given = ["fit", "f.csv", "--release", "f.parquet", "--out", "m.skops", "--separator", sign]
    assert main(given) == 2
    assert "the numbers of column x have decimal commas" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ids", "twice"),
    [
        (["007", "7", "NA", "None", "0.0", "0", "null", "nan"], False),
        (["a", "b", "a"], True),
    ],
)
def test_ids_are_read_as_they_are_written(ids, twice, capsys):
    table(ids, "s.csv", answers=True)
    assert release("s.csv", "--row-id", "id") == (2 if twice else 0)
    if not twice:
        assert ldp.load_release("r.parquet").row_ids.tolist() == ids
    Path("s.csv").write_text("id,ans\nb,yes\n,no\n")
    assert release("s.csv", "--row-id", "id", "--out", "s.parquet") == 2
    assert "row 2, column id: it is empty" in capsys.readouterr().err


def test_rows_are_matched_by_id_and_the_others_are_counted(capsys):
    ids = [f"{number:03d}" for number in range(40)]
    table(ids, "s.csv", answers=True)
    assert release("s.csv", "--row-id", "id") == 0
    table([*ids[:5:-1], "A40"])
    assert fit("f.csv", "--row-id", "id") == 0
    said = capsys.readouterr().out
    assert "matched by id: 34; left out are 6 of r.parquet and 1 of f.csv" in said
    assert "from 34 releases" in said
    for wrong, told in (
        ([f"x{each}" for each in ids], "has none of the rows"),
        (ids * 2, "second"),
    ):
        table(wrong)
        assert fit("f.csv", "--row-id", "id") == 2
        assert told in capsys.readouterr().err


def test_rows_without_ids_must_be_as_many(capsys):
    table(range(100, 140), "s.csv", answers=True)
    assert release("s.csv") == 0
    table(range(100, 141))
    assert fit("f.csv", "--drop", "id") == 2
    assert "has 41 rows, and r.parquet 40" in capsys.readouterr().err
    table(range(100, 140))
    assert fit("f.csv", "--drop", "id") == 0
    assert "matched by position" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", "number"])
def test_row_numbers_are_no_feature(name, capsys):
    # What pandas.DataFrame.to_csv writes by itself: a file that is sorted by class was learnt.
    table(range(60), "s.csv", answers=True)
    assert release("s.csv") == 0
    features = pd.DataFrame({"x": np.linspace(-1, 1, 60)})
    features.to_csv("f.csv", index_label=name or None)
    named = name or "Unnamed: 0"
    assert fit("f.csv") == 2
    assert f"column {named}" in (said := capsys.readouterr().err) and "--keep" in said
    assert fit("f.csv", "--drop", named) == 0 and "1 columns" in capsys.readouterr().out
    assert fit("f.csv", "--keep", named) == 0 and "2 columns" in capsys.readouterr().out


def test_the_old_name_of_the_linear_model_is_told(capsys):
    assert fit("f.csv", "--model", "logistic") == 2
    assert "is now called linear" in capsys.readouterr().err
