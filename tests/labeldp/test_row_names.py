"""Rows are known again however a reader spells their ids; what cannot be known again is told."""

import os
from pathlib import Path

import numpy as np
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.spending import names_of
from labeldp.support.validate import InputError

ID = ["--row-id", "id"]
AGAIN = [*ID, "--again"]
A = list(range(100, 110))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def release(ids, out, *more):
    """Releases the answers of rows with these ids."""
    rows = [f"{each},{'yes' if place % 2 else 'no'}" for place, each in enumerate(ids)]
    Path("t.csv").write_text("\n".join(["id,answer", *rows, ""]))
    given = ["release", "t.csv", "--label", "answer", "--classes", "yes,no", "--seed", "1"]
    return main([*given, "--eps", "1", "--out", f"{out}.parquet", *more])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Jos\u00e9", "Jose\u0301"),
        ("a\u00a0b", "a b"),
        ("1e3", "1000"),
        ("1e+17", "100000000000000000.0"),
        ("0.10", ".1"),
        ("True", "true"),
        ("2020-01-01T00:00:00.000000000", "2020-01-01"),
        ("2020-01-01T10:30:00.500000Z", "2020-01-01 10:30:00.5+00:00"),
    ],
)
def test_one_row_that_two_readers_spell_differently_has_one_name(one, other):
    # A second release of it went unnoticed, and --again then counted eps=1 for 2.
    assert names_of(np.array([one], object)) == names_of(np.array([other], object))


def test_other_names_stay_other_names():
    texts = np.array(["1e3x", "2020-01-01 10:30", "2020-01-01 10:31", "-7", "7", "nan", "1e999"])
    assert len(set(names_of(texts))) == len(texts)


def test_a_release_of_none_of_these_rows_is_told_of_and_nothing_to_add_to_is_refused(capsys):
    # Ids of another spelling passed for other persons without a word.
    assert release([100, 101, 102], "r1", *ID) == 0
    assert release([200, 201, 202], "r2", *ID) == 0
    assert "r1.parquet holds a release of column answer, and none of" in capsys.readouterr().err
    assert release([300, 301, 302], "r3", *AGAIN) == 2
    assert "--again adds to an earlier release of these rows" in capsys.readouterr().err
    os.mkdir("empty")
    assert release(A, "empty/r", *AGAIN) == 2


def test_a_damaged_file_is_not_taken_for_none(capsys):
    # A copy that stopped half way was passed over in silence, and its eps was not counted.
    assert release(A, "r1", *ID) == 0
    whole = Path("r1.parquet").read_bytes()
    os.rename("r1.parquet", "R1.PARQUET")
    assert release(A, "r2", *ID) == 2 and "holds a release" in capsys.readouterr().err
    Path("R1.PARQUET").write_bytes(whole[:-10])
    assert release(A, "r2", *ID) == 2
    assert "is no whole Parquet file, and may hold an earlier release" in capsys.readouterr().err


def test_a_name_of_two_spellings_adds_up(capsys):
    assert release(["Jos\u00e9", "Ann"], "r1", *ID) == 0
    assert release(["Jose\u0301", "Ann"], "r2", *ID) == 2
    assert release(["Jose\u0301", "Ann"], "r2", *AGAIN) == 0
    assert ldp.load_release("r2.parquet").spent.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"row_ids": [None, 1]}, "row 0: the row id is missing"),
        ({"row_ids": [1.0, float("nan")]}, "row 1: the row id is missing"),
        ({"source": 5}, "source must be a text"),
        ({"unit_name": 7}, "unit_name must be a text"),
        ({"parameters": [1]}, "parameters must be a dict"),
        ({"unit": ["x", "x"], "most_rows": 10**9}, "eps=1 shared among 1000000000 rows of a unit"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_drawn(given, said):
    # A file was written that nobody could load; a small share of eps was a traceback.
    with pytest.raises(InputError, match=said):
        ldp.privatize(["a", "b"], ["a", "b"], 1.0, **given)
