"""What `release` and `fit` notice: names of persons, copies of the label, what is not worth it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.suspects import missing_code

ROWS = 900
RELEASE = ["release", "s.csv", "--label", "answer", "--classes", "yes,no", "--eps", "1"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A survey of 300 persons, three rows each, whose column `told` is a copy of the answer."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    score = rng.normal(size=ROWS)
    answer = np.where(score + 0.3 * rng.normal(size=ROWS) > 0.4, "yes", "no")
    columns = {
        "patient_id": [f"P{row // 3:04d}" for row in range(ROWS)],
        "client_age": rng.integers(18, 90, ROWS),
        "score": score.round(3),
        "told": np.where(answer == "yes", 1, 0),
        "answer": answer,
    }
    made = pd.DataFrame(columns)
    made.to_csv("s.csv", index=False)
    made.drop(columns="answer").to_csv("f.csv", index=False)
    return made


def test_release_tells_of_persons_with_several_rows_and_of_a_copy_of_the_label(table, capsys):
    # A person spent three times eps, and the label went out in another column, without a word.
    assert main([*RELEASE, "--out", "r.parquet"]) == 0
    out, err = capsys.readouterr()
    assert "kept with probability 73 %" in out
    notes = err.splitlines()
    (person,) = [note for note in notes if "patient_id" in note]
    assert "eps=3" in person and "--unit patient_id" in person
    (copy,) = [note for note in notes if "told" in note]
    assert "answer" in copy and not any("client_age" in note or "score" in note for note in notes)
    Path("o").mkdir()
    unit = ["--unit", "patient_id", "--ledger", "new.ledger"]
    assert main([*RELEASE, "--out", "o/u.parquet", *unit]) == 0
    assert "if they are persons" not in capsys.readouterr().err


def test_release_tells_of_a_column_that_names_rows(table, capsys):
    # Rows that were sorted again would be learnt from with the labels of others.
    table.assign(patient_id=range(5, ROWS + 5)).to_csv("s.csv", index=False)
    assert main([*RELEASE, "--out", "r.parquet"]) == 0
    assert "--row-id patient_id" in capsys.readouterr().err


def test_another_case_is_said_and_another_release_does_not_hide_it(table, capsys):
    # "the label is none of yes,no", of a file that showed Yes everywhere.
    assert main([*RELEASE, "--out", "r.parquet"]) == 0
    answers = table.answer.str.title().where(table.index == 6, table.answer)
    table.assign(answer=answers).to_csv("t.csv", index=False)
    capsys.readouterr()
    assert main([RELEASE[0], "t.csv", *RELEASE[2:], "--out", "q.parquet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "t.csv, row 7" in line and "case" in line and "Yes" not in line and "No" not in line
    assert not Path("q.parquet").exists()


def test_fit_tells_of_names_and_of_a_leak_and_whether_the_model_is_of_use(table, capsys):
    # A model that had learnt the label itself looked perfect, and one of no use looked good.
    ldp.privatize(table.answer, classes=["yes", "no"], eps=2.0, seed=1).save("r.parquet")
    fit = ["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops"]
    assert main(fit) == 0
    out, err = capsys.readouterr()
    notes = err.splitlines()
    assert sum("patient_id looks like names" in note for note in notes) == 1
    assert sum("told alone" in note for note in notes) == 1
    assert sum("categories" in note for note in notes) == 1  # it was once for each fifth
    assert "better than always saying no: yes" in out and "next: labeldp predict" in out
    assert main([*fit, "--drop", "patient_id", "--drop", "told"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "better than always saying no: yes" in out
    others = ["--drop", "score", "--drop", "told", "--keep", "patient_id"]
    assert main([*fit, *others]) == 0
    out, err = capsys.readouterr()
    assert "looks like" not in err and "better than always saying no: yes" not in out
    table[["client_age"]].assign(constant=1.0).to_csv("g.csv", index=False)
    assert main(["fit", "g.csv", *fit[2:]]) == 0
    assert "better than always saying no: yes" not in capsys.readouterr().out


@pytest.mark.parametrize("code", [-9, -999, 999, -99, 9999, -(2**31), -32768])
def test_a_code_for_a_missing_value_is_known(code):
    ages = np.random.default_rng(0).integers(18, 90, ROWS)
    assert missing_code(np.where(np.arange(ROWS) % 30 > 0, ages, code)) == (code, 30)


def test_fit_tells_of_a_code_for_a_missing_value(table, capsys):
    # The model learnt from an age of 999.
    code = 999
    ages = table["client_age"].where(np.arange(ROWS) % 30 > 0, code)
    table.drop(columns=["answer", "told", "patient_id"]).assign(client_age=ages).to_csv("f.csv")
    assert main([*RELEASE, "--out", "r.parquet"]) == 0
    fit = ["fit", "f.csv", "--release", "r.parquet", "--drop", "Unnamed: 0", "--out", "m.skops"]
    capsys.readouterr()
    assert main(fit) == 0
    (note,) = [line for line in capsys.readouterr().err.splitlines() if f"{code} in 30" in line]
    assert "client_age" in note and "--keep client_age" in note
    assert main([*fit, "--keep", "client_age"]) == 0
    assert "client_age" not in capsys.readouterr().err
    assert main(["predict", "f.csv", "--model", "m.skops", "--out", "p.csv"]) == 0
    assert f"client_age has {code} in 30 rows" in capsys.readouterr().err


def test_fit_tells_of_predictions_that_were_joined_to_the_features(table, capsys):
    # They were learnt from the same releases, and no row is held out any more.
    table[["client_age"]].assign(predicted="no", p_no=0.7).to_csv("f.csv", index=False)
    assert main([*RELEASE, "--out", "r.parquet"]) == 0
    capsys.readouterr()
    assert main(["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops"]) == 0
    said = capsys.readouterr().err
    assert "--drop predicted" in said and "--drop p_no" in said


@pytest.mark.parametrize(("code", "is_said"), [(-999, True), (45, False), (99, False)])
def test_release_of_numbers_tells_of_a_code_without_showing_it(code, is_said, tmp_path, capsys):
    ages = np.where(np.arange(300) % 30 > 0, np.arange(300) % 80 + 18, code)
    file = tmp_path / "s.csv"
    pd.DataFrame({"age": ages}).to_csv(file, index=False)
    given = ["release", str(file), "--label", "age", "--bounds", "18,97", "--eps", "1"]
    assert main([*given, "--out", str(tmp_path / "r.parquet")]) == 0
    said = capsys.readouterr().err
    assert ("code for a missing value" in said) == is_said
    assert str(code) not in said


def test_fit_suspects_the_order_of_rows_first(table, capsys):
    # Features that were sorted fell to the most frequent class, and the advice was a larger eps.
    def said(*more):
        assert main(["fit", "g.csv", "--release", "r.parquet", "--out", "m.skops", *more]) == 0
        return capsys.readouterr().out.splitlines()[-2]

    ldp.privatize(table.answer, classes=["yes", "no"], eps=3.0, seed=1).save("r.parquet")
    features = table[["score"]].assign(row=[f"r{row}" for row in range(ROWS)])
    features.to_csv("g.csv", index=False)
    assert said("--drop", "row").startswith("next: labeldp predict")
    features.sample(frac=1, random_state=0).to_csv("g.csv", index=False)
    assert said("--drop", "row").startswith(
        "next: make sure that the rows of g.csv are in the order"
    )
    assert "--row-id" in said("--drop", "row")
    named = ldp.privatize(
        table.answer[::-1], ["yes", "no"], 3.0, seed=1, row_ids=features["row"].to_list()
    )
    named.save("n.parquet")
    more = ["--release", "n.parquet", "--row-id", "row"]
    assert "in the order" not in said(*more)


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("ids", ["number", "text", "code"])
def test_release_tells_of_persons_by_their_values(ids, is_sorted, table, capsys):
    # Columns named pid and mrn got no word, and one person spent twelve times eps.
    whose = np.repeat(np.arange(ROWS // 12), 12)
    whose = whose if is_sorted else np.random.default_rng(0).permutation(whose)
    values = {"number": whose, "text": [f"P{each}" for each in whose], "code": 730_000 + whose}
    ages = np.random.default_rng(1).integers(18, 90, ROWS)
    days = pd.Timestamp("2025-01-01") + pd.to_timedelta(ages * 3, "D")
    others = {"age": ages, "day": days, "weight": ages / 2, "state": ages % 50, "grams": ages * 100}
    table[["score", "answer"]].assign(mrn=values[ids], **others).to_csv("s.csv", index=False)
    assert main([*RELEASE, "--out", "r.parquet"]) == 0
    out, err = capsys.readouterr()
    (note,) = err.splitlines()
    assert "eps=12" in note and "--unit mrn" in note
    assert "--unit COLUMN" in out
    assert main([*RELEASE, "--out", "q.parquet"]) == 2  # and it is said before anything is booked
    assert note in capsys.readouterr().err
    Path("o").mkdir()
    unit = ["--unit", "mrn", "--ledger", "u.ledger"]
    assert main([*RELEASE, "--out", "o/u.parquet", *unit]) == 0
    out, err = capsys.readouterr()
    assert "mrn" not in err and "--unit COLUMN" not in out
