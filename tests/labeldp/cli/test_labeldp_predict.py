"""`labeldp predict` on tables that look otherwise than those of the fit."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.support.validate import InputError


def fitted(folder, features):
    """A model of these columns, whose label is whether the first one is `true`, or above 0."""
    first = features.iloc[:, 0]
    yes = first > 0 if first.dtype.kind == "f" else first == "true"
    pd.DataFrame({"y": np.where(yes, "yes", "no")}).to_csv(folder / "y.csv", index=False)
    features.to_csv(folder / "f.csv", index=False)
    release = ["release", "y.csv", "--label", "y", "--classes", "yes,no", "--eps", "4"]
    assert main([*release, "--out", "r.parquet", "--seed", "0"]) == 0
    return main(["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops"])


def predicted(rows, name="p.csv"):
    rows.to_csv("g.csv", index=False)
    assert main(["predict", "g.csv", "--model", "m.skops", "--out", name]) == 0
    return pd.read_csv(name).drop(columns="row")


@pytest.mark.parametrize("third", ["unknown", ""])
def test_truth_values_stay_the_categories_they_were(third, tmp_path, monkeypatch):
    # pandas makes True of `true` where a file has no other text, and the category was another one.
    monkeypatch.chdir(tmp_path)
    features = pd.DataFrame({"asked": ["true", "false", third] * 60, "x": range(5, 185)})
    assert fitted(tmp_path, features) == 0
    whole = predicted(features)
    some = features.asked.isin(["true", "false"])
    expected = whole[some].reset_index(drop=True)
    pd.testing.assert_frame_equal(predicted(features[some]), expected)
    other = pd.DataFrame({"asked": ["maybe"], "x": [0]})  # with it, all cells are texts
    found = predicted(pd.concat([features[some], other]))[:-1]
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    ("towns", "told"),
    [(["c", "b"], "'b'"), (["c", "b", "d"], "none of the known ones"),
     ([f"t{n}" for n in range(60)], "a rare one")],
)  # fmt: skip
def test_a_category_that_the_fit_has_not_seen_is_told(towns, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    towns = towns * (120 // len(towns))
    assert fitted(tmp_path, pd.DataFrame({"x": np.arange(-60.0, 60), "town": towns})) == 0
    capsys.readouterr()
    rows = pd.DataFrame({"x": 10.0, "town": [*towns[:2], "B", "C"]})
    predicted(rows[:2])
    assert capsys.readouterr().err == ""
    found = predicted(rows)
    assert capsys.readouterr().err == (
        "note: g.csv, column town: 2 of 4 rows have a category that no row of the fit had, such as "
        f"'B' in row 3: it counts as {told}\n"
    )
    assert found.p_yes[2] == found.p_yes[3]
    assert (found.p_yes[2] == found.p_yes[1]) == (told != "none of the known ones")


def test_a_number_whose_square_overflows_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    features = pd.DataFrame({"x": np.random.default_rng(0).normal(size=60)})
    assert fitted(tmp_path, features * 1e149) == 0
    predicted(features)
    capsys.readouterr()
    features.loc[7, "x"] = 1e300
    features.to_csv("f.csv", index=False)
    said = "error: f.csv, row 8, column x: the number 1e+300 is too large to be squared"
    assert main(["fit", "f.csv", "--release", "r.parquet", "--out", "n.skops"]) == 2
    assert capsys.readouterr().err.startswith(said)
    assert main(["predict", "f.csv", "--model", "m.skops", "--out", "n.csv"]) == 2
    assert capsys.readouterr().err.startswith(said)
    assert not (tmp_path / "n.skops").exists() and not (tmp_path / "n.csv").exists()


def test_an_empty_line_and_a_number_beyond_all_floats_in_a_file_of_one_column(
    tmp_path, monkeypatch, capsys
):
    # Rows after the line moved up by one; 400 digits were a traceback.
    monkeypatch.chdir(tmp_path)
    assert fitted(tmp_path, pd.DataFrame({"x": np.arange(-30.0, 30)})) == 0
    Path("f.csv").write_text("x\n25\n\n-25\n")
    assert main(["predict", "f.csv", "--model", "m.skops", "--out", "p.csv"]) == 0
    found = pd.read_csv("p.csv")
    assert len(found) == 3 and found.p_yes[0] != found.p_yes[2]
    capsys.readouterr()
    Path("f.csv").write_text(f"x\n2.5\n{'9' * 400}\n")
    assert main(["predict", "f.csv", "--model", "m.skops", "--out", "q.csv"]) == 2
    assert "f.csv, row 2, column x: the number is infinite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ids", "kept"), [(["007", "010"], ["007", "010"]), ([7, 10], ["7", "10"])]
)
def test_row_ids_come_out_as_they_went_in(ids, kept, tmp_path, monkeypatch):
    # 007 came out as 7, by which no row is found in a file of texts.
    monkeypatch.chdir(tmp_path)
    assert fitted(tmp_path, pd.DataFrame({"x": np.arange(-30.0, 30)})) == 0
    pd.DataFrame({"id": ids, "x": [1.0, 2.0]}).to_csv("g.csv", index=False)
    for name in ("p.csv", "p.parquet"):
        predict = ["predict", "g.csv", "--model", "m.skops", "--row-id", "id", "--out", name]
        assert main(predict) == 0
    assert pd.read_parquet("p.parquet").row.tolist() == kept
    assert pd.read_csv("p.csv", dtype=str).row.tolist() == list(map(str, kept))


def test_class_names_are_no_formula_and_no_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, x = ['=HYPERLINK("a"&A1)', "no", "-2.5"], np.arange(-45.0, 45)
    labels = np.repeat(names, 30).tolist()
    with pytest.raises(InputError, match="control sign"):
        ldp.privatize(labels, classes=[*names, "\x1b[31mno"], eps=8.0, seed=0)
    ldp.privatize(labels, classes=names, eps=8.0, seed=0).save("r.parquet")
    pd.DataFrame({"x": x}).to_csv("f.csv", index=False)
    assert main(["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops"]) == 0
    command = ["predict", "f.csv", "--model", "m.skops", "--out", "p.csv"]
    assert main(command) == 0
    assert "--spreadsheet" in capsys.readouterr().err
    assert set(pd.read_csv("p.csv", dtype=str).predicted) == set(names)  # or nothing would join
    assert main([*command, "--spreadsheet"]) == 0
    found = pd.read_csv("p.csv", dtype=str).predicted
    assert set(found) == {'\'=HYPERLINK("a"&A1)', "no", "-2.5"}


@pytest.mark.parametrize(
    ("classes", "spelled"),
    [([False, True], ["false", "true"]), ([1234567.0, 2.5], ["2.5", "1234567"])],
)
def test_a_class_is_spelled_as_in_a_file_of_labels(classes, spelled, tmp_path, monkeypatch):
    # A truth value was True here and true in the labels, and 1234567.0 is there 1234567.
    monkeypatch.chdir(tmp_path)
    x = np.arange(-45.0, 45)
    labels = [classes[int(each)] for each in x > 0]
    ldp.privatize(labels, classes=classes, eps=8.0, seed=0).save("r.parquet")
    pd.DataFrame({"x": x}).to_csv("f.csv", index=False)
    assert main(["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops"]) == 0
    assert main(["predict", "f.csv", "--model", "m.skops", "--out", "p.csv"]) == 0
    found = pd.read_csv("p.csv", dtype=str)
    assert list(found)[2:] == [f"p_{name}" for name in spelled]
    assert set(found.predicted) == set(spelled)
