"""The commands for own labels on tables as databases have them: persons with rows, decimals."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.models import columns_of, load_model


def visits(folder):
    """Forty people with eight visits each, and a feature that names each and says no more."""
    random = np.random.default_rng(0)
    code, answer = random.permutation(40), random.random(40) < 0.5
    table = pd.DataFrame({"person": np.repeat([f"p{n}" for n in range(40)], 8)})
    table["code"] = np.repeat(code, 8)
    table["answer"] = np.repeat(np.where(answer, "yes", "no"), 8)
    table.to_csv(folder / "visits.csv", index=False)


def test_rows_of_a_person_are_held_out_together(tmp_path, monkeypatch, capsys):
    # Trees that know a person's other rows name the answer of all rows; of a new one they cannot.
    monkeypatch.chdir(tmp_path)
    visits(tmp_path)
    release = ["release", "visits.csv", "--label", "answer", "--classes", "yes,no", "--eps", "40"]
    fit = ["--drop", "answer", "--model", "boosted_trees", "--out", "m.skops", "--release"]
    found = {}
    for name, unit in (("rows", ()), ("people", ("--unit", "person"))):
        (tmp_path / name).mkdir()
        out = f"{name}/r.parquet"
        assert main([*release, *unit, "--out", out, "--seed", "0", "--ledger", f"{name}/l"]) == 0
        capsys.readouterr()
        assert main(["fit", "visits.csv", "--drop", "person", *fit, out]) == 0
        said = capsys.readouterr().out
        assert "that may be too high" not in said
        found[name] = float(re.search(r"alone: ([\d.]+)%", said)[1])
    assert found["rows"] > 80
    assert found["people"] < 75
    pd.read_csv("visits.csv")[["code"]].to_csv("few.csv", index=False)
    # The answer is not there, and any model says it.
    assert main(["fit", "few.csv", *fit[4:], "people/r.parquet"]) == 0
    assert "that may be too high: few.csv has no column person" in capsys.readouterr().out


@pytest.mark.parametrize("is_text", [True, False])
def test_the_column_of_persons_groups_rows_and_is_no_feature(
    is_text, tmp_path, monkeypatch, capsys
):
    # A number was learnt from, and a text had to be dropped by hand.
    monkeypatch.chdir(tmp_path)
    whose = np.repeat(np.arange(100), 2)
    table = pd.DataFrame({"who": [f"p{n}" for n in whose] if is_text else whose, "x": whose % 7})
    table.assign(y=np.where(whose % 7 > 3, "yes", "no")).to_csv("s.csv", index=False)
    table.to_csv("f.csv", index=False)
    release = ["release", "s.csv", "--label", "y", "--classes", "yes,no", "--eps", "20"]
    assert main([*release, "--unit", "who", "--out", "r.parquet"]) == 0
    fit = ["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops"]
    assert main(fit) == 0
    out, err = capsys.readouterr()
    assert "1 columns" in out and "that may be too high" not in out and "who" not in err
    assert columns_of(load_model(Path("m.skops"))) == ["x"]
    assert main([*fit, "--keep", "who"]) == 2
    assert "--keep=who" in capsys.readouterr().err


def test_all_columns_that_are_no_features_are_named_at_once(tmp_path, monkeypatch, capsys):
    # Each needed a run of its own to be told of.
    monkeypatch.chdir(tmp_path)
    ldp.privatize(["yes", "no"] * 60, ["yes", "no"], 3.0, seed=0).save("r.parquet")
    texts = [f"text {n} of {n}" for n in range(120)]
    table = pd.DataFrame({"a b": texts, "x": np.arange(120) % 7, "c": texts, "d": np.arange(120)})
    table.to_csv("f.csv", index=False)
    fit = ["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops"]
    assert main(fit) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--drop 'a b'" in line and "--drop 'c'" in line and "--drop 'd'" in line
    assert "'x'" not in line
    assert main([*fit, "--drop", "a b", "--drop", "c", "--drop", "d"]) == 0


def test_decimals_of_a_database_are_numbers(tmp_path, monkeypatch, capsys):
    # Snowflake and Oracle write whole numbers as decimals, too long for float64 as row ids may be.
    monkeypatch.chdir(tmp_path)
    price = np.random.default_rng(0).normal(size=200).round(2)
    columns = {
        "id": pa.array([Decimal(2**53 + n) for n in range(200)], pa.decimal128(38, 0)),
        "price": pa.array([None, *map(Decimal, map(str, price[1:]))], pa.decimal128(12, 2)),
        "visits": pa.array([Decimal(n % 7) for n in range(200)], pa.decimal128(38, 0)),
        "y": pa.array([Decimal(int(each > 0)) for each in price], pa.decimal128(3, 1)),
    }
    pq.write_table(pa.table(columns), "t.parquet")
    release = ["release", "t.parquet", "--label", "y", "--classes", "0,1", "--eps", "4"]
    assert main([*release, "--row-id", "id", "--out", "r.parquet", "--seed", "0"]) == 0
    assert ldp.load_release("r.parquet").row_ids.tolist() == [2**53 + n for n in range(200)]
    fit = ["fit", "t.parquet", "--release", "r.parquet", "--row-id", "id", "--drop", "y"]
    assert main([*fit, "--out", "m.skops"]) == 0
    assert "2 columns" in capsys.readouterr().out
    predict = ["predict", "t.parquet", "--model", "m.skops", "--row-id", "id", "--out", "p.csv"]
    assert main(predict) == 0
    found = pd.read_csv("p.csv")
    assert found.row.tolist() == [2**53 + n for n in range(200)]
    assert (found.predicted == (price > 0)).mean() > 0.9


@pytest.mark.parametrize(
    ("labels", "classes", "told"),
    [
        (np.array([True, False]), "True,False", "truth values are spelled true and false"),
        (
            pd.to_datetime(["2024-01-31", "2024-02-01"]),
            "2024-01-31,2024-02-01",
            "a time is spelled as 2024-01-31 00:00:00",
        ),
    ],
)
def test_how_a_label_of_parquet_is_spelled_is_told(
    labels, classes, told, tmp_path, monkeypatch, capsys
):
    # "the label is none of True,False", of a column that showed True and False everywhere.
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"y": labels}).to_parquet("t.parquet")
    release = ["release", "t.parquet", "--label", "y", "--eps", "9", "--out", "r.parquet"]
    assert main([*release, "--classes", classes]) == 2
    assert capsys.readouterr().err.endswith(f"(it is not shown, as labels are secret; {told})\n")
    spelled = "true,false" if "True" in classes else "2024-01-31 00:00:00,2024-02-01 00:00:00"
    assert main([*release, "--classes", spelled]) == 0


def test_names_of_two_levels_are_those_of_the_file(tmp_path, monkeypatch):
    # As groupby().agg(["mean", "std"]) makes them; fit ended in pandas' traceback.
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=40)
    names = pd.MultiIndex.from_tuples([("x", "mean"), ("x", "std")])
    pd.DataFrame(np.stack([x, x**2], 1), columns=names).to_parquet("f.parquet")
    ldp.privatize(x > 0, classes=[False, True], eps=8.0, seed=0).save("r.parquet")
    fit = ["fit", "f.parquet", "--release", "r.parquet", "--out", "m.skops"]
    assert main([*fit, "--drop", "('x', 'std')"]) == 0
    assert main(["predict", "f.parquet", "--model", "m.skops", "--out", "p.csv"]) == 0
    assert (pd.read_csv("p.csv").predicted == (x > 0)).mean() > 0.9


def test_columns_that_are_numbered_are_named_by_their_digits(tmp_path, monkeypatch):
    # As pandas names those of an array: it was a traceback, after the release was written.
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({0: np.arange(40.0), 1: np.arange(40) % 2}).to_parquet("t.parquet")
    release = ["release", "t.parquet", "--label", "1", "--classes", "0,1", "--eps", "4"]
    assert main([*release, "--out", "r.parquet"]) == 0


def test_a_truth_value_may_be_missing_where_a_model_is_used(tmp_path, monkeypatch):
    # "'True' is not a number"
    monkeypatch.chdir(tmp_path)
    asked = np.arange(60) % 2 == 0
    ldp.privatize(asked, classes=[False, True], eps=8.0, seed=0).save("r.parquet")
    table = pd.DataFrame({"asked": asked})
    missing = pd.DataFrame({"asked": table.asked.astype(object).where(table.index != 7)})
    for kind, write in (("csv", "to_csv"), ("parquet", "to_parquet")):
        getattr(table, write)(f"f.{kind}", index=False)
        getattr(missing, write)(f"g.{kind}", index=False)
        fit = ["fit", f"f.{kind}", "--release", "r.parquet", "--out", "m.skops"]
        assert main(fit) == 0
        assert main(["predict", f"g.{kind}", "--model", "m.skops", "--out", "p.csv"]) == 0
        found = pd.read_csv("p.csv").predicted
        assert (found == asked)[found.index != 7].all()
