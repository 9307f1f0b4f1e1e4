"""The commands for own labels, as a user runs them: from a survey to predictions."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from tests.conftest import CHECKOUT


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """A folder with 300 people, their features and what they answered."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"person": [f"p{n}" for n in range(300)], "age": range(18, 318)})
    table["town"] = ["north", "south", "west"] * 100
    table["answer"] = ["yes" if age > 168 else "no" for age in table.age]
    table.to_csv("survey.csv", index=False)
    table.drop(columns="answer").to_csv("features.csv", index=False)
    return table


RELEASE = ["release", "survey.csv", "--label", "answer", "--classes", "yes,no", "--eps", "4"]
RELEASE += ["--row-id", "person", "--out", "r.parquet"]
FIT = ["fit", "features.csv", "--release", "r.parquet", "--row-id", "person", "--out", "m.skops"]
PREDICT = ["predict", "features.csv", "--model", "m.skops", "--row-id", "person", "--out", "p.csv"]


def test_from_a_survey_to_predictions(survey, capsys):
    assert main([*RELEASE, "--seed", "0"]) == 0
    assert "300 labels released by rr, eps=4" in capsys.readouterr().out
    release = ldp.load_release("r.parquet")
    assert release.row_ids.tolist() == survey.person.tolist()
    assert main(FIT) == 0
    said = capsys.readouterr().out
    assert "from releases alone: 9" in said  # more than 90 %
    assert "the noise has a seed: for tests only" in said  # eps alone would promise something
    assert re.search(r"always saying (yes|no): [45]\d", said)
    assert main(PREDICT) == 0
    found = pd.read_csv("p.csv")
    assert found.columns.tolist() == ["row", "predicted", "p_no", "p_yes"]
    assert (found.predicted == survey.answer).mean() > 0.9


@pytest.mark.parametrize("eps", ["4", "inf"])
def test_a_fit_says_where_eps_protects_nobody(eps, survey, capsys):
    # Who gets model and words, and not those of the release, would take eps for a guarantee.
    assert main([*RELEASE, "--eps", eps]) == 0
    capsys.readouterr()
    assert main(FIT) == 0
    said = capsys.readouterr().out
    assert ("no privacy: the release holds the true labels" in said) == (eps == "inf")
    assert "seed" not in said


def test_trees_are_fitted_saved_and_read_back(survey, tmp_path, capsys):
    # The middle ages say yes: no line can say so, a tree can.
    survey["answer"] = ["yes" if 93 < age < 243 else "no" for age in survey.age]
    survey.to_csv("survey.csv", index=False)
    assert main([*RELEASE, "--seed", "0"]) == 0
    assert main([*FIT, "--model", "tree"]) == 2
    assert "--model must be one of linear, boosted_trees" in capsys.readouterr().err
    assert main([*FIT, "--model", "boosted_trees"]) == 0
    said = capsys.readouterr().out
    assert "boosted trees of 2 classes" in said
    assert main(PREDICT) == 0
    assert (pd.read_csv("p.csv").predicted == survey.answer).mean() > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--label", "answr"), "survey.csv has no column answr"),
        (
            ("--classes", "yes,maybe"),
            "survey.csv, row 1, column answer: the label is none of yes,maybe",
        ),
        (("--eps", "0"), "--eps must be a number > 0"),
        (("--eps", "x"), "argument --eps: must be a number, got 'x'"),
        (("--out", "r.csv"), "--out must end in .parquet"),
        (("--mechanism", "ple"), "--mechanism must be one of auto, "),
        (("--row-id", "town"), "survey.csv, row 4, column town: it has north a second time"),
        (("--row-id", "answer"), "--row-id must not be the secret column"),
        (("--classes", "yes"), "--classes must be at least two"),
        (("--classes", 'yes,"no'), "argument --classes: must be names with commas between"),
        (
            ("--bounds", "0,1"),
            "give --classes (all values that a label may have) or --bounds (numbers), not both",
        ),
        (("--unit", "twon"), "survey.csv: --unit=twon is not a column"),
        (("--most-rows", "0"), "--most-rows must be >= 1, got 0"),
        (("--seed", "-1"), "--seed must be >= 0, got -1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(survey, capsys, tmp_path, change, message):
    before = sorted(tmp_path.iterdir())
    arguments = list(RELEASE)
    if change[0] in arguments:
        arguments[arguments.index(change[0]) + 1] = change[1]
    else:
        arguments += change
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")
    assert sorted(tmp_path.iterdir()) == before


def test_features_must_not_hold_the_secret_column(survey, capsys):
    assert main([*RELEASE, "--seed", "1"]) == 0
    assert main(["fit", "survey.csv", *FIT[2:]]) == 2
    assert "which is what the release keeps secret" in capsys.readouterr().err


def test_rows_named_another_way_are_refused(survey, capsys):
    # Ids that are a permutation of the rows fit too: each label would go to another person.
    survey.assign(person=survey.index[::-1]).to_csv("survey.csv", index=False)
    features = survey.drop(columns="answer")
    features = features.assign(person=survey.index[::-1], id=survey.index[::-1])
    features.to_csv("features.csv", index=False)
    by_column, by_place = [*RELEASE, "--seed", "1"], [*RELEASE[:-4], "--seed", "1"]
    unnamed = [*FIT[:4], *FIT[6:]]
    assert main(by_column) == 0
    assert main(unnamed) == 2
    said = capsys.readouterr().err
    assert "the rows of r.parquet are named by the column person (give --row-id person)" in said
    assert main([*unnamed, "--row-id", "id", "--drop", "person"]) == 0
    Path("r.parquet").unlink()
    assert main([*by_place, "--out", "r.parquet", "--ledger", "places"]) == 0
    assert main(FIT) == 2
    said = capsys.readouterr().err
    assert "are counted from 0, in the order of the file" in said and "--drop person" in said
    named = ["--release", "r.parquet", "--row-id", "person"]
    assert main(["evaluate", "features.csv", *named]) == 2
    assert "leave --row-id out" in (said := capsys.readouterr().err) and "--drop" not in said
    assert main([*unnamed, "--drop", "person", "--drop", "id"]) == 0


def test_a_label_is_read_as_it_is_written(tmp_path, monkeypatch, capsys):
    # pandas takes NA and None for missing, and 007 for a number.
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"answer": ["NA", "None", "007"]}).to_csv("s.csv", index=False)
    given = ["release", "s.csv", "--label", "answer", "--eps", "inf", "--out", "r.parquet"]
    assert main([*given, "--classes", "007,None,NA"]) == 0
    assert "the release holds the true labels" in capsys.readouterr().out
    release = ldp.load_release("r.parquet")
    assert release.classes == ["007", "NA", "None"] and release.outputs.tolist() == [1, 2, 0]


def test_a_class_with_a_comma_stands_in_quotes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"answer": ["no, never", "yes"]}).to_csv("s.csv", index=False)
    given = ["release", "s.csv", "--label", "answer", "--eps", "inf", "--out", "r.parquet"]
    assert main([*given, "--classes", 'yes, "no, never"']) == 0
    release = ldp.load_release("r.parquet")
    assert release.classes == ["no, never", "yes"] and release.outputs.tolist() == [0, 1]


def test_help_and_options_need_no_torch():
    # It takes three seconds to import, in which Ctrl-C was a traceback.
    code = "import sys\nfrom labeldp.cli.__main__ import main\n"
    code += "assert main(['plan', '--rows', 'x']) == 2\nassert 'torch' not in sys.modules"
    found = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True)
    assert found.returncode == 0, found.stderr.decode()


@pytest.mark.parametrize("name", ["answer", "age"])
@pytest.mark.parametrize("kind", ["csv", "tsv.gz", "parquet"])
def test_two_columns_of_one_name_are_refused(survey, capsys, name, kind):
    # The first one would be released, without a word of the other.
    table = pd.concat([survey, survey[[name]]], axis=1)
    file = f"twice.{kind}"
    if kind == "parquet":
        arrays = [pa.array(table.iloc[:, place]) for place in range(table.shape[1])]
        pq.write_table(pa.Table.from_arrays(arrays, list(table.columns)), file)
    else:
        table.to_csv(file, index=False, sep="\t" if "tsv" in kind else ",")
    assert main([*RELEASE[:1], file, *RELEASE[2:]]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file} has two columns {name} (give each a name")
    assert main([*RELEASE, "--seed", "1"]) == 0
    assert main([*FIT[:1], file, *FIT[2:]]) == 2
    assert f"{file} has two columns {name}" in capsys.readouterr().err


def test_row_ids_may_be_the_index_that_pandas_wrote(survey):
    table = survey.set_index("person")
    table.to_parquet("survey.parquet")
    table.drop(columns="answer").to_parquet("features.parquet")
    assert main([RELEASE[0], "survey.parquet", *RELEASE[2:], "--seed", "1"]) == 0
    assert main([FIT[0], "features.parquet", *FIT[2:]]) == 0
    assert main([PREDICT[0], "features.parquet", *PREDICT[2:]]) == 0
    assert pd.read_csv("p.csv").row.tolist() == survey.person.tolist()


def test_row_ids_that_are_reals_stay_apart_in_predictions(survey):
    # All were written with six digits: 1.23457e+06 three hundred times.
    survey["person"] = 1234567.0 + survey.index
    survey.to_csv("survey.csv", index=False)
    survey.drop(columns="answer").to_csv("features.csv", index=False)
    for line in ([*RELEASE, "--seed", "1"], FIT, PREDICT):
        assert main(line) == 0
    found = pd.read_csv("p.csv")
    assert found.row.tolist() == survey.person.tolist()
    assert len(Path("p.csv").read_text().splitlines()[1].split(",")[2]) <= len("1.23456e-07")


@pytest.mark.parametrize(
    ("cell", "what"), [([1, 2], "lists or records"), (b"\xc8", "bytes that are no text in UTF-8")]
)
def test_a_column_of_lists_or_bytes_is_no_feature(cell, what, survey, capsys):
    # Of a hundred rows and more it was a traceback.
    survey["visits"] = [cell] * len(survey)
    survey.drop(columns="answer").to_parquet("features.parquet")
    assert main([*RELEASE, "--seed", "1"]) == 0
    capsys.readouterr()
    assert main([FIT[0], "features.parquet", *FIT[2:]]) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert f"column visits has {what}, and is no category (leave it out" in said


def test_a_category_that_looks_like_a_number_is_the_same_category(survey):
    # 007 was read as 7, which the model does not know, where no other row had a text.
    codes = ["007" if age > 168 else f"A{age % 2}" for age in survey.age]
    survey = survey.assign(code=codes)[["person", "code", "answer"]]
    survey.to_csv("survey.csv", index=False)
    survey.drop(columns="answer").to_csv("features.csv", index=False)
    assert main([*RELEASE, "--seed", "1"]) == 0 and main(FIT) == 0
    Path("one.csv").write_text("person,code\np,007\nq,\n")
    assert main(["predict", "one.csv", *PREDICT[2:]]) == 0
    found = pd.read_csv("p.csv")
    assert found.predicted[0] == "yes" and found.p_yes[0] > 0.9 > found.p_yes[1]


def test_bounds_that_begin_with_a_minus(survey, capsys):
    given = ["release", "survey.csv", "--label", "age", "--eps", "1", "--out", "r.parquet"]
    assert main([*given, "--bounds", "-1,1"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "a value that begins with - follows =, as in --bounds=-1,1" in line
    assert main([*given, "--bounds=-1,1"]) == 0


def test_a_file_that_is_read_is_never_replaced(survey, capsys):
    assert main([*RELEASE, "--seed", "1"]) == 0 and main(FIT) == 0
    survey.drop(columns="answer").to_parquet("f.parquet")
    Path("link.skops").symlink_to("features.csv")
    before = {path: path.read_bytes() for path in sorted(Path().iterdir())}
    same = (
        [*PREDICT[:-1], "./features.csv"],
        [PREDICT[0], "f.parquet", *PREDICT[2:-1], "f.parquet"],
        [*FIT[:-1], "link.skops"],
        ["release", "f.parquet", "--label", "town", *RELEASE[4:-1], "f.parquet"],
    )
    for arguments in same:
        capsys.readouterr()
        assert main(arguments) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("error: --out: ") and "is a file that is read here" in line
    assert {path: path.read_bytes() for path in sorted(Path().iterdir())} == before
