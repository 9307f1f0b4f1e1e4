"""What rows have spent in all: never less than the truth, and the truth where files tell it."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.file import read_rows
from labeldp.support.validate import InputError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def release(ids, out, *more, eps=1.0, name="id"):
    """Releases rows with these ids; a row's person is the id without its last two digits."""
    table = pd.DataFrame({name: ids, "answer": (["yes", "no"] * len(ids))[: len(ids)]})
    table["person"] = [f"p{int(''.join(filter(str.isdigit, str(each)))) // 100}" for each in ids]
    table.to_csv("t.csv", index=False)
    given = ["release", "t.csv", "--label", "answer", "--classes", "yes,no", "--mechanism", "rr"]
    return main([*given, "--eps", f"{eps:g}", "--seed", "1", "--out", f"{out}.parquet", *more])


ID = ["--row-id", "id"]
AGAIN = [*ID, "--again"]
A, B = list(range(100, 110)), list(range(210, 225))


def spent_by_row(out):
    read = ldp.load_release(f"{out}.parquet")
    return dict(zip(read.row_ids.astype(str).tolist(), read.spent.tolist(), strict=True))


def test_a_release_from_python_counts_though_it_names_no_column(capsys):
    # The same labels went out twice, and the second file said that it was the first.
    given = {"classes": ["yes", "no"], "eps": 2.0, "seed": 0}
    ldp.privatize(["yes", "no"] * 5, row_ids=A, **given).save("r1.parquet")
    ldp.privatize(["yes", "no"] * 5, **given).save("others.parquet")  # rows of another name
    ldp.privatize(["yes", "no"], row_ids=[7, 8], **given).save("more.parquet")  # other rows
    assert release(A, "r2", *ID) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "r1.parquet holds a release of these rows, maybe of column answer" in line
    assert release(A, "r2", *AGAIN) == 0
    assert set(spent_by_row("r2").values()) == {3}
    ldp.privatize(["yes", "no"] * 5, row_ids=A, source="smokes", **given).save("r3.parquet")
    assert release(A, "r4", *AGAIN) == 0
    assert set(spent_by_row("r4").values()) == {4}


def test_each_row_counts_all_its_releases(capsys):
    # The release with the largest spend knows nothing of the rows of another one.
    assert release(A, "r1", *ID, eps=2) == 0
    assert release(B, "r2", *ID, eps=3) == 0
    assert release(A + B, "r3", *AGAIN, eps=1) == 0
    spent = spent_by_row("r3")
    assert {spent[str(each)] for each in A} == {3} and {spent[str(each)] for each in B} == {4}
    capsys.readouterr()
    assert release(A, "r4", *AGAIN, eps=1) == 0
    assert "eps=4 spent" in capsys.readouterr().out
    assert set(spent_by_row("r4").values()) == {4}


def test_a_release_that_was_counted_and_deleted_still_counts(capsys):
    assert release(A, "r1", *ID, eps=2) == 0
    assert release(A, "r2", *AGAIN) == 0
    os.remove("r1.parquet")
    assert release(A, "r3", *AGAIN) == 0
    assert release(A[:4], "r4", *AGAIN) == 0
    assert "eps=5 spent" in capsys.readouterr().out


def test_a_note_says_so_where_rows_without_names_may_have_moved(capsys):
    # Five new rows went before the old ones, of which the last five then counted as new.
    assert release(A, "r1") == 0 and release(A, "r2", "--again") == 0
    assert "taken for the one in its place" not in capsys.readouterr().err
    assert release(B[:5] + A, "r3", "--again") == 0
    assert "have 10 rows, and here are 15: as rows have no names" in capsys.readouterr().err
    given = {"classes": ["yes", "no"], "eps": 1.0, "seed": 0}
    first = ldp.privatize(["yes", "no"] * 5, **given)
    with pytest.warns(UserWarning, match="have 10 rows, and here are 12: .*row_ids= names rows"):
        ldp.privatize(["yes", "no"] * 6, after=first, **given)


def test_copies_count_once_and_files_that_do_not_know_each_other_add_up(capsys):
    assert release(A, "r1", *ID, eps=2) == 0
    Path("copy.parquet").write_bytes(Path("r1.parquet").read_bytes())
    os.mkdir("elsewhere")
    assert release(A, "elsewhere/r2", *ID, eps=3) == 0
    os.rename("elsewhere/r2.parquet", "r2.parquet")
    capsys.readouterr()
    assert release(A, "r3", *AGAIN) == 0
    said = capsys.readouterr()
    assert "eps=6 spent" in said.out and "does not say" not in said.err


def test_a_file_that_may_not_be_read_is_not_taken_for_none(monkeypatch, capsys):
    # A colleague's release of the same rows was passed over in silence.
    assert release(A, "r1", *ID) == 0
    plain = pq.read_schema

    def read(path):
        if Path(path).name == "r1.parquet":
            raise PermissionError(13, "Permission denied")  # as Arrow does; root may read all
        return plain(path)

    monkeypatch.setattr(pq, "read_schema", read)
    assert release(A, "r2", *AGAIN) == 2
    assert "r1.parquet may not be read, and may hold an earlier" in capsys.readouterr().err
    assert not Path("r2.parquet").exists()


def test_the_refusal_names_all_that_was_spent(capsys):
    assert release(A, "r1", *ID, eps=2) == 0
    assert release(A, "r2", *AGAIN, eps=3) == 0
    capsys.readouterr()
    assert release(A, "r3", *ID) == 2
    assert "r2.parquet holds a release of column answer already, eps=5" in capsys.readouterr().err


def test_ids_that_became_texts_are_the_same_rows(capsys):
    assert release([10, 11, 12], "r1", *ID) == 0
    capsys.readouterr()
    assert release(["10", "A1", "11"], "r2", *AGAIN) == 0
    assert "eps=2 spent" in capsys.readouterr().out
    assert spent_by_row("r2") == {"10": 2, "A1": 1, "11": 2}


def test_ids_that_became_texts_are_the_same_rows_in_python():
    given = {"classes": ["yes", "no"], "eps": 1.0, "seed": 0}
    first = ldp.privatize(["yes", "no"], row_ids=[10, 11], **given)
    second = ldp.privatize(["no", "yes"], row_ids=["10", "A1"], after=first, **given)
    assert second.spent.tolist() == [2, 1]
    # The second one counts the first, which is given too.
    third = ldp.privatize(["no", "yes"], row_ids=["10", "A1"], after=[first, second], **given)
    assert third.spent.tolist() == [3, 2]
    with pytest.raises(InputError, match="after= holds a release that has none of these rows"):
        ldp.privatize(["no", "yes"], row_ids=["x", "y"], after=first, **given)
    with pytest.raises(InputError, match="none of these rows: its row ids are 10, 11"):
        ldp.privatize(["no"] * 12, after=first, **given)  # rows that are counted have other names


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["001", "002"], ["001", "002", "A4"]),  # pandas reads 1, 2, and then 001, 002
        ([1, 2], [1.0, 2.0, 3.5]),
        (["1", "+2", "x9"], ["1.0", " 2", "y9"]),
    ],
)
def test_numbers_that_were_read_as_texts_are_the_same_rows(first, second, capsys):
    # One cell decides how all are read: the labels were released again, and said to be new.
    assert release(first, "r1", *ID) == 0
    assert release(second, "r2", *ID) == 2
    assert "r1.parquet holds a release of column answer already" in capsys.readouterr().err
    assert release(second, "r2", *AGAIN) == 0
    assert list(spent_by_row("r2").values()) == [2, 2, 1][: len(second)]


def test_two_rows_of_one_name_count_what_either_has_spent():
    given = {"classes": ["yes", "no"], "eps": 1.0, "seed": 0}
    first = ldp.privatize(["yes"] * 3, row_ids=["01", "1", "x"], **given)
    second = ldp.privatize(["yes"] * 2, row_ids=["1", "y"], after=first, **given)
    assert second.spent.tolist() == [2, 1]
    third = ldp.privatize(["yes"] * 3, row_ids=["01", "1", "x"], after=[first, second], **given)
    assert third.spent.tolist() == [3, 3, 2]


def test_a_person_counts_rows_that_are_left_out_now(capsys):
    # Persons of four rows: 1 on all of them, then 1 on the first one alone.
    ids = [100 * person + row for person in range(1, 6) for row in range(4)]
    assert release(ids, "r1", *ID, "--unit", "person") == 0
    capsys.readouterr()
    more = ["--unit", "person", "--most-rows", "1"]
    assert release(ids, "r2", *AGAIN, *more) == 0
    assert "eps=2 spent" in capsys.readouterr().out
    assert ldp.load_release("r2.parquet").eps_spent == 2
    os.remove("r1.parquet")
    assert release(ids, "r3", *AGAIN, "--unit", "person") == 0
    assert "eps=3 spent" in capsys.readouterr().out
    assert release(ids, "r4", *AGAIN) == 2  # as rows: persons would be forgotten
    [line] = capsys.readouterr().err.splitlines()
    assert "counts what each person has spent, not each row" in line and "--unit person" in line


def test_persons_who_may_be_known_by_other_rows_are_told_of(capsys):
    # The one row of a person that was released is gone from the next table; a wave has new rows.
    first, more = [100, 101, 200], ["--unit", "person", "--most-rows", "1"]
    assert release(first, "r1", *ID, *more) == 0
    assert "does not say whose rows" not in capsys.readouterr().err
    for ids, out, again in (([101, 300], "r2", []), ([101, 200], "r3", ["--again"])):
        assert release(ids, out, *ID, *more, *again) == 0
        assert "r1.parquet" in (line := capsys.readouterr().err) and "whose rows it counts" in line
    os.remove("r2.parquet"), os.remove("r3.parquet")
    assert release(first, "r4", *AGAIN, *more) == 0
    assert "does not say whose rows" not in capsys.readouterr().err
    given = {"classes": ["yes", "no"], "eps": 1.0, "seed": 0, "unit_name": "who", "most_rows": 1}
    before = ldp.privatize(["yes"] * 3, unit=[1, 1, 2], row_ids=first, **given)
    with pytest.warns(UserWarning, match="after= does not say whose rows it counts"):
        ldp.privatize(["yes"] * 2, unit=[1, 2], row_ids=[101, 200], after=before, **given)


def test_rows_that_were_released_alone_add_up_for_their_person(capsys):
    ids = [100, 101, 102, 103, 200]
    assert release(ids, "r1", *ID) == 0
    capsys.readouterr()
    assert release(ids, "r2", *AGAIN, "--unit", "person", "--most-rows", "2") == 0
    assert "eps=5 spent" in capsys.readouterr().out
    assert spent_by_row("r2") == {"100": 5, "101": 5, "200": 2}


def test_persons_add_up_in_python():
    given = {"classes": ["yes", "no"], "eps": 1.0, "seed": 0, "unit_name": "person"}
    labels, persons = ["yes", "no"] * 4, [1, 1, 1, 1, 2, 2, 2, 2]
    first = ldp.privatize(labels, unit=persons, **given)
    second = ldp.privatize(labels, unit=persons, most_rows=1, after=first, **given)
    assert second.eps_spent == 2 and second[:1].eps_spent == 2
    with pytest.raises(InputError, match="what each person has spent, not each row"):
        ldp.privatize(labels, after=first, **given)


@pytest.mark.parametrize(
    ("first", "second", "remedy"),
    [
        (ID, [], "give --row-id id"),
        ([], ID, "leave --row-id out"),
        (ID, ["--row-id", "number"], "give --row-id id"),
    ],
)
def test_rows_with_other_names_are_refused(first, second, remedy, capsys):
    # Whole numbers are no proof that rows were counted.
    assert release(A, "r1", *first) == 0
    name = "number" if "number" in second else "id"
    for again in ([], ["--again"]):
        capsys.readouterr()
        assert release(A, "r2", *second, *again, name=name) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert "whose rows have other names" in line and remedy in line
    assert not Path("r2.parquet").exists()


def as_older(path):
    """Writes a file as versions before November 2026 did: rows' own spend, and no names."""
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"labeldp"])
    for key in ("release", "counted", "row_id"):
        del content[key]
    if content["unit"]:
        rows = table["eps_spent"].to_numpy() / content["unit"]["most_rows"]
        table = table.set_column(2, "eps_spent", [rows])
    pq.write_table(table.replace_schema_metadata({"labeldp": json.dumps(content)}), path)


def test_files_of_older_versions_are_read_and_never_count_too_little(capsys):
    assert release(A, "r1", *ID, eps=2) == 0
    as_older("r1.parquet")
    assert ldp.load_release("r1.parquet").eps_spent == 2
    assert release(A, "r2", *AGAIN) == 0  # it counted nothing, so that the sum is known
    said = capsys.readouterr()
    assert "eps=3 spent" in said.out and "does not say" not in said.err
    as_older("r2.parquet")  # it counted r1, and does not say so
    assert release(A, "r3", *AGAIN) == 0
    said = capsys.readouterr()
    assert "eps=6 spent" in said.out  # 4, if r2 was known to have counted r1
    assert "note: r2.parquet does not say which earlier releases" in said.err
    assert release(A, "r4", *AGAIN) == 0  # counted once, under a name of its own
    assert "eps=7 spent" in capsys.readouterr().out


def test_rows_of_older_versions_with_other_names_are_refused(capsys):
    assert release(A, "r1", *ID) == 0
    as_older("r1.parquet")
    assert release(A, "r2", "--again") == 2
    assert "whose rows have other names" in capsys.readouterr().err
    os.remove("r1.parquet")
    assert release(A, "r1") == 0
    as_older("r1.parquet")
    assert release(A, "r2", *AGAIN) == 2
    assert "whose rows have other names" in capsys.readouterr().err
    assert release(A, "r2", "--again") == 0
    assert "eps=2 spent" in capsys.readouterr().out


def test_older_persons_are_read_as_persons():
    assert release([100, 101, 200], "r1", *ID, "--unit", "person") == 0
    as_older("r1.parquet")
    _, spent, manifest = read_rows(Path("r1.parquet"))
    assert spent.tolist() == [1, 1, 1] and manifest.row_eps == 0.5
    assert ldp.load_release("r1.parquet").eps_spent == 1


@pytest.mark.parametrize("key, what", [("row_ids", "row ids"), ("unit", "unit: persons")])
@pytest.mark.parametrize("dtype", [object, str])
def test_names_that_no_file_can_hold_are_refused(key, what, dtype):
    # They ended in a traceback of the reader.
    given = {key: np.array(["\ud800", "b"], dtype=dtype)}
    with pytest.raises(InputError, match=f"^{what} must be texts that UTF-8 can write"):
        ldp.privatize(["a", "b"], classes=["a", "b"], eps=1.0, seed=0, **given)
