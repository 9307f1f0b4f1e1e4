"""What the commands make of tables: dialects, names as they are written, ids that are matched."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.io.tables import TableFile
from labeldp.support.validate import InputError


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
def test_another_separator_and_decimal_commas_are_read_and_said(sign, capsys):
    # Excel writes such files in much of Europe; the numbers passed for categories.
    Path("s.csv").write_text(f"ans{sign}x\nyes{sign}1,5\nno{sign}2,5\n")
    assert release("s.csv") == 0
    assert f"separator {sign!r}" in capsys.readouterr().out
    assert ldp.load_release("r.parquet").row_ids.tolist() == [0, 1]
    ldp.privatize(["yes", "no"] * 30, ["yes", "no"], 8.0, seed=0).save("f.parquet")
    rows = [(f"{place % 7},25", ["yes", "no"][place % 2]) for place in range(60)]
    Path("f.csv").write_text(f"a{sign}x\n" + "".join(f"{x}{sign}{a}\n" for a, x in rows))
    assert main(["fit", "f.csv", "--release", "f.parquet", "--out", "m.skops"]) == 0
    said = capsys.readouterr().out
    assert f"separator {sign!r}" in said and "decimal ','" in said
    table = TableFile(Path("f.csv")).features()
    assert table["x"].tolist() == [place % 7 + 0.25 for place in range(60)]


@pytest.mark.parametrize("cells", ["1,250 2,500", "1,5 2.5", "1.234,5 2,5", "1,234,567 1,5"])
def test_commas_of_unclear_meaning_are_refused(cells):
    # 1,250 may be a thousand and a quarter of it, or one and a quarter.
    Path("f.csv").write_text("a;x\n" + "".join(f"1;{cell}\n" for cell in cells.split()))
    with pytest.raises(InputError, match="column x"):
        TableFile(Path("f.csv")).features()


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
    assert "has 41 rows, and r.parquet is of 40" in capsys.readouterr().err
    table(range(100, 140))
    assert fit("f.csv", "--drop", "id") == 0
    assert "matched by position" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("persons", "kept"),
    [([*range(30), *[0] * 10], [*range(30)]), ([*[0] * 10, *range(1, 31)], [0, *range(10, 40)])],
)
def test_rows_that_the_cap_leaves_out_stay_in_their_places(persons, kept, capsys):
    # A cap that leaves out the last rows of a file made a release that fits no table.
    table(persons, "s.csv", answers=True)
    assert release("s.csv", "--unit", "id", "--most-rows", "1") == 0
    assert ldp.load_release("r.parquet").row_ids.tolist() == kept
    table(range(40))
    assert fit("f.csv", "--drop", "id") == 0
    said = f"by position: {len(kept)}; left out are {40 - len(kept)} of f.csv"
    assert said in capsys.readouterr().out
    table(range(41))
    assert fit("f.csv", "--drop", "id") == 2
    assert "has 41 rows, and r.parquet is of 40" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "file"), [("", "f.csv"), ("number", "f.csv"), ("", "f.parquet")])
def test_row_numbers_are_no_feature(name, file, capsys):
    # What pandas.DataFrame.to_csv writes by itself: a file that is sorted by class was learnt.
    table(range(60), "s.csv", answers=True)
    assert release("s.csv") == 0
    features = pd.DataFrame({"x": np.linspace(-1, 1, 60)})
    numbered = features.reset_index(names=name)
    write = numbered.to_csv if file == "f.csv" else numbered.to_parquet
    write(file, index=False)
    named = name or "Unnamed: 0"
    assert fit(file) == 2
    assert f"column {named}" in (said := capsys.readouterr().err) and "--keep" in said
    assert fit(file, "--drop", named) == 0 and "1 columns" in capsys.readouterr().out
    assert fit(file, "--keep", named) == 0 and "2 columns" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_many_columns_come_by_their_names_in_any_order(suffix, tmp_path):
    # Several are read in one pass over the file.
    file = tmp_path / f"wide{suffix}"
    wide = pd.DataFrame({f"x{place}": [place, place + 0.5] for place in range(70)})
    wide.to_csv(file, index=False) if suffix == ".csv" else wide.to_parquet(file, index=False)
    asked = [f"x{place}" for place in range(69, -1, -3)]
    for names in (None, asked):
        found = TableFile(file).features(names=names, drop={"x3"})
        wanted = wide[names or list(wide)].drop(columns="x3").astype(float)
        pd.testing.assert_frame_equal(found, wanted)


@pytest.mark.parametrize("ids", [[f"p{row}" for row in range(40)], [*range(40)][::-1]])
def test_rows_that_python_named_are_not_matched_by_position(ids, capsys):
    # Texts ended in a traceback, and numbers in another order were matched by position.
    answers = ["yes", "no"] * 20
    ldp.privatize(answers, ["yes", "no"], 8.0, seed=0, row_ids=ids).save("r.parquet")
    table(ids)
    assert fit("f.csv", "--drop", "id") == 2
    assert "--row-id" in capsys.readouterr().err
    assert fit("f.csv", "--row-id", "id") == 0


def test_blanks_around_names_and_categories_do_not_matter(tmp_path, monkeypatch, capsys):
    # Three of four releases found no row, and one clinic was three categories.
    monkeypatch.chdir(tmp_path)
    ids = [f"p{n}" for n in range(200)]
    ward = ["eye", "ear"] * 100
    padded = [f" {name} " if n % 3 else name for n, name in enumerate(ids)]
    pd.DataFrame({"id": padded, "y": ["a", "b"] * 100}).to_csv("s.csv", index=False)
    wards = [f"{name} " if n % 3 else name for n, name in enumerate(ward)]
    pd.DataFrame({"id": ids, "ward": wards}).to_csv("f.csv", index=False)
    pd.DataFrame({"id": ids, "ward": ward}).to_csv("g.csv", index=False)
    release = "release s.csv --label y --classes a,b --eps 8 --row-id id --out r.parquet"
    assert main(release.split()) == 0
    assert (
        main(["fit", "f.csv", "--release", "r.parquet", "--row-id", "id", "--out", "m.skops"]) == 0
    )
    said = capsys.readouterr().out
    assert "rows are matched by id\n" in said
    assert "predict FEATURES --model m.skops --row-id id" in said
    for name in "fg":
        done = main(f"predict {name}.csv --model m.skops --row-id id --out {name}.p.csv".split())
        assert done == 0
    assert Path("f.p.csv").read_bytes() == Path("g.p.csv").read_bytes()


def test_a_name_of_nobody_does_not_take_the_budget(tmp_path, monkeypatch, capsys):
    # 25 cells with "k.A." were one person, so that every row had eps / 25.
    monkeypatch.chdir(tmp_path)
    who = [f"p{n // 2}" for n in range(80)] + ["k.A."] * 20
    pd.DataFrame({"who": who, "y": ["a", "b"] * 50}).to_csv("s.csv", index=False)
    release = [
        "release",
        "s.csv",
        "--label",
        "y",
        "--classes",
        "a,b",
        "--eps",
        "8",
        "--unit",
        "who",
        "--out",
        "r.parquet",
    ]
    assert main(release) == 2
    said = capsys.readouterr().err
    assert "k.A. has 20 rows" in said and "--most-rows" in said
    assert not Path("s.csv.ledger").exists()
    assert main([*release, "--most-rows", "2"]) == 0
    Path("s.csv").write_text("who,y\n")
    assert main([*release[:-1], "q.parquet"]) == 2
    assert "has no rows" in capsys.readouterr().err


def test_the_column_of_names_is_the_one_that_was_released(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ids = range(100)
    pd.DataFrame({"id": ids, "y": ["a", "b"] * 50}).to_csv("s.csv", index=False)
    pd.DataFrame({"id": ids, "no": ids[::-1], "x": 1.0}).to_csv("f.csv", index=False)
    release = "release s.csv --label y --classes a,b --eps 8 --row-id id --out r.parquet"
    assert main(release.split()) == 0
    assert (
        main(["fit", "f.csv", "--release", "r.parquet", "--row-id", "no", "--out", "m.skops"]) == 2
    )
    assert "give --row-id id" in capsys.readouterr().err
    assert (
        main(["fit", "f.csv", "--release", "r.parquet", "--row-id", "nr", "--out", "m.skops"]) == 2
    )
    assert "--row-id=nr is not a column" in capsys.readouterr().err
