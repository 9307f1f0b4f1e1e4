"""The ledger: every release of a row adds up, and nothing is released that is not booked."""

import json
import multiprocessing
import os
import signal
import sqlite3
import threading
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp import streaming
from labeldp.cli.__main__ import main
from labeldp.ledger import Payers
from labeldp.manifest import Manifest, Unit
from labeldp.store import BudgetError
from labeldp.support.validate import InputError

GIVEN = {"classes": ["yes", "no"], "eps": 1.0, "mechanism": "rr"}
A, B = list(range(100, 110)), list(range(210, 225))
ID, UNIT = ["--row-id", "id"], ["--unit", "person"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def release(ids, out, *more, eps=1.0, label="answer", answers=("yes", "no")):
    """Releases rows with these ids; a row's person is the id without its last two digits."""
    table = pd.DataFrame({"id": ids, label: (list(answers) * len(ids))[: len(ids)]})
    digits = [int("".join(filter(str.isdigit, str(each))) or 0) for each in ids]
    table["person"] = [f"p{each // 100}" for each in digits]
    table.to_csv("t.csv", index=False)
    given = ["release", "t.csv", "--label", label, "--classes", "yes,no", "--mechanism", "rr"]
    return main([*given, "--eps", f"{eps:g}", "--out", f"{out}.parquet", *more])


def spent(out):
    read = ldp.load_release(f"{out}.parquet")
    return dict(zip(read.row_ids.astype(str).tolist(), read.spent.tolist(), strict=True))


def refused(capsys, *said):
    [line] = [each for each in capsys.readouterr().err.splitlines() if each.startswith("error")]
    assert all(each in line for each in said), line


def test_the_first_release_starts_a_ledger_that_only_its_owner_reads(capsys):
    assert release(A, "r", *ID, answers=["yes", "maybe"]) == 2
    assert os.listdir() == ["t.csv"]  # a label that cannot be released leaves no ledger
    assert release(A, "r", *ID) == 0
    assert "started the ledger t.csv.ledger" in capsys.readouterr().out
    assert Path("t.csv.ledger").stat().st_mode & 0o777 == 0o600
    assert b"100" not in Path("t.csv.ledger").read_bytes()
    assert release(B, "s", *ID) == 0
    said = capsys.readouterr()
    assert "started" not in said.out and "holds none of these rows" in said.err


def test_every_release_of_a_row_adds_up_whatever_its_column_is_called(capsys):
    assert release(A, "r1", *ID, eps=2) == 0
    assert release(B, "r2", *ID, eps=3) == 0
    capsys.readouterr()
    assert release(A, "r3", *ID, label="Answer") == 2
    refused(capsys, "eps=2", "t.csv.ledger", "--again", "3 in total")
    assert release(A + B + [300], "r3", *ID, "--again", label="Answer") == 0
    assert "eps=4 spent" in capsys.readouterr().out
    assert spent("r3") == {str(each): 3 for each in A} | {str(each): 4 for each in B} | {"300": 1}
    for file in ("r1.parquet", "r2.parquet", "r3.parquet"):  # the ledger needs no release's file
        os.remove(file)
    assert release(A, "r4", *ID, "--again") == 0 and set(spent("r4").values()) == {4}


@pytest.mark.parametrize("name", ["account", "a.csv", "b.ledger.old"])
def test_a_ledger_may_have_any_name(name, capsys):
    assert release(A, "r1", *ID, "--ledger", name) == 0
    assert release(A, "r2", *ID, "--ledger", name) == 2
    refused(capsys, name, "--again")
    assert not Path("t.csv.ledger").exists()


@pytest.mark.parametrize(
    ("one", "other"), [("José", "José"), ("1e3", "1000"), ("007", "7"), ("a ", "a"), ("7.0", "7")]
)
def test_a_row_that_is_spelled_otherwise_is_the_same_row(one, other):
    assert release([one, "x"], "r1", *ID) == 0
    assert release([other, "x9"], "r2", *ID) == 2


def test_again_needs_something_to_add_to(capsys):
    assert release(A, "r", *ID, "--again") == 2
    refused(capsys, "--again adds to an earlier release")
    assert os.listdir() == ["t.csv"]


def test_rows_without_ids_are_known_by_their_places_while_the_column_stays(capsys):
    assert release(A, "r1") == 0
    assert release(A, "r2") == 2
    refused(capsys, "eps=1", "--again")
    assert release(A, "r2", "--again", label="Answer") == 0  # the same labels, renamed
    assert set(spent("r2").values()) == {2}
    assert release(A, "r3", "--again", *ID) == 0 and set(spent("r3").values()) == {3}
    for ids, answers in ((B[:5] + A, ["yes", "no"]), (A, ["no", "yes"])):
        assert release(ids, "r4", "--again", answers=answers) == 2
        refused(capsys, "--row-id")
    os.remove("t.csv.ledger"), os.remove("r3.parquet")
    os.remove("r2.parquet"), os.remove("r1.parquet")
    assert release(A, "r1") == 0
    capsys.readouterr()
    assert release(B, "r2", *ID, "--again") == 0  # which rows were released, nobody knows
    assert "each row counts its eps=1" in capsys.readouterr().err
    assert set(spent("r2").values()) == {2}
    assert release(B, "r3", "--again") == 2
    refused(capsys, "rows may have moved")


def test_a_person_counts_rows_and_releases(capsys):
    ids = [100, 101, 102, 103, 200]
    assert release(ids, "r1", *ID) == 0
    assert release(ids[1:], "r2", *ID, *UNIT, "--again") == 2  # whose is row 100?
    refused(capsys, "1 rows of an earlier release")
    assert release(ids, "r2", *UNIT, "--again") == 2
    refused(capsys, "--row-id id")
    assert release(ids, "r2", *ID, *UNIT, "--most-rows", "2", "--again") == 0
    assert spent("r2") == {"100": 5, "101": 5, "200": 2}
    assert release([109, 300], "r3", *UNIT, "--ledger", "x", *ID) == 0
    capsys.readouterr()
    assert release([109, 300], "r4", "--ledger", "x", *ID, "--again") == 2
    refused(capsys, "counts persons", "--unit person")
    # A person who comes again with another row.
    assert release([105], "r4", *UNIT, "--ledger", "x", *ID, "--again") == 0
    assert spent("r4") == {"105": 2}


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_against_a_plain_account(seed):
    stream, ledger, account = np.random.default_rng(seed), ldp.Ledger("x"), Counter()
    persons = np.array(["a", "b", "c", "d"]).repeat(3)
    by_person = stream.random() < 0.5
    for _ in range(8):
        rows = np.flatnonzero(stream.random(12) < 0.7)
        eps = float(stream.integers(1, 4))
        unit = Unit("who", 3) if by_person else None
        payers = Payers(len(rows), lambda name: b"", "y", rows, "id")
        if by_person:
            payers = Payers(len(rows), lambda name: b"", "y", rows, "id", persons[rows], "who")
        names = persons[rows] if by_person else rows
        made = Manifest("rr", {}, eps, ("a", "b"), unit=unit)
        with ledger.charge(made, payers, again=True) as (_, before):
            assert before.eps.tolist() == [account[name] for name in names.tolist()]
        account.update(dict.fromkeys(names.tolist(), eps))
    assert len(ledger.entries()) == 8


def test_a_release_that_the_ledger_does_not_know_is_booked_first(capsys):
    ldp.privatize(["yes", "no"] * 5, row_ids=A, seed=0, **GIVEN).save("old.parquet")
    os.rename("old.parquet", "old.pq")
    assert release(A, "r", *ID) == 2
    refused(capsys, "old.pq", "does not know", "--book old.pq")
    assert release(A, "r", *ID, "--book", "t.csv") == 2
    refused(capsys, "--book: t.csv holds no release")
    assert release(A, "r", *ID, "--book", "old.pq") == 2
    refused(capsys, "eps=1", "--again")
    assert release(A, "r", *ID, "--again") == 0  # booked once
    assert set(spent("r").values()) == {2}
    assert release(B, "s", *ID) == 0  # releases that are booked, and of other rows, are no matter
    ldp.privatize(["yes", "no"] * 5, seed=1, **GIVEN).save("counted.parquet")
    assert release(A, "u", *ID, "--again") == 0


def test_what_a_booked_release_cost_is_never_too_little(capsys):
    assert release(A, "r1", *ID, "--ledger", "x", eps=2) == 0
    assert release(A, "r2", *ID, "--ledger", "x", "--again") == 0
    both = ["--book", "r2.parquet", "--book", "r1.parquet"]
    assert release(A, "s1", *ID, "--ledger", "y", "--again", *both) == 0
    assert set(spent("s1").values()) == {4}
    os.remove("r1.parquet"), os.remove("s1.parquet")
    assert release(A, "s2", *ID, "--ledger", "z", "--again", "--book", "r2.parquet") == 0
    assert set(spent("s2").values()) == {4}  # r2 says that its rows have spent 3
    os.remove("s2.parquet")
    ldp.load_release("r2.parquet")[:3].save("part.parquet")
    os.rename("r2.parquet", "../r2.parquet")
    assert release(A, "s3", *ID, "--ledger", "w", "--again", "--book", "part.parquet") == 0
    os.rename("../r2.parquet", "r2.parquet")
    os.remove("s3.parquet")
    assert release(A, "s4", *ID, "--ledger", "w", "--again") == 2  # the part is no whole
    refused(capsys, "--book r2.parquet")


def test_persons_of_a_release_are_those_of_the_file_that_was_released(capsys):
    ids = [100, 101, 200, 201]
    assert release(ids, "r1", *ID, *UNIT, "--ledger", "x") == 0
    for more in (ID, UNIT):
        assert release(ids, "r2", *more, "--book", "r1.parquet") == 2
        refused(capsys, "r1.parquet counts each person")
    both = [*ID, *UNIT, "--again"]
    assert release(ids[:3], "r2", *both, "--book", "r1.parquet") == 2
    assert release(ids, "r2", *both, "--book", "r1.parquet") == 0
    assert set(spent("r2").values()) == {2}


def as_older(path):
    """Writes a file as versions before November 2026 did: rows' own spend, and no names."""
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"labeldp"])
    for key in ("release", "counted", "row_id", "num_rows"):
        del content[key]
    if content["unit"]:
        rows = table["eps_spent"].to_numpy() / content["unit"]["most_rows"]
        table = table.set_column(2, "eps_spent", [rows])
    pq.write_table(table.replace_schema_metadata({"labeldp": json.dumps(content)}), path)


def test_files_of_older_versions_are_read_and_booked(capsys):
    assert release(A, "r1", *ID, "--ledger", "x", eps=2) == 0
    as_older("r1.parquet")
    assert ldp.load_release("r1.parquet").eps_spent == 2
    assert release(A, "r2", *ID) == 2
    refused(capsys, "--book r1.parquet")
    assert release(A, "r2", *ID, "--again", "--book", "r1.parquet") == 0
    assert set(spent("r2").values()) == {3}
    os.mkdir("d")
    assert release([100, 101, 200], "d/r3", *UNIT, "--ledger", "y") == 0
    as_older("d/r3.parquet")
    assert ldp.load_release("d/r3.parquet").spent.tolist() == [1, 1, 1]


def test_a_file_that_cannot_be_read_is_not_taken_for_none(capsys):
    assert release(A, "r1", *ID, "--ledger", "x") == 0
    whole = Path("r1.parquet").read_bytes()
    Path("r1.parquet").write_bytes(whole[:-10])
    assert release(A, "r2", *ID) == 2
    refused(capsys, "r1.parquet is no whole Parquet file")


def _locked():
    other = sqlite3.connect("x")
    other.execute("BEGIN IMMEDIATE")
    return other


def _changed(statement):
    with sqlite3.connect("x") as database:
        database.execute(statement)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (_locked, "is used by another release"),
        (lambda: Path("x").write_bytes(b""), "is damaged"),
        (lambda: os.truncate("x", 5000), "is damaged"),
        (lambda: Path("x").write_text("id,answer\n"), "is damaged"),
        (lambda: _changed("UPDATE ledger SET version = 99"), "newer version"),
        (lambda: _changed("DROP TABLE releases"), "is damaged"),
        (lambda: (os.remove("x"), os.mkdir("x")), "x"),
        (lambda: (os.remove("x"), os.symlink("/proc/x/y", "x")), "x"),
    ],
)
def test_a_ledger_that_cannot_be_used_ends_the_command_before_anything_is_drawn(
    fault, said, capsys, monkeypatch
):
    monkeypatch.setattr("labeldp.ledger.PATIENCE", 0.1)
    assert release(A, "r1", *ID, "--ledger", "x") == 0
    kept = fault()
    monkeypatch.setattr(streaming, "draw", None)
    assert release(B, "r2", *ID, "--ledger", "x") == 2
    refused(capsys, said)
    assert sorted(os.listdir()) == ["r1.parquet", "t.csv", "x"]
    del kept


def killed(monkeypatch, owner, name, at=1):
    """Releases A as r.parquet in a process that is killed at a call of a function."""
    calls, original = [], getattr(owner, name)

    def kill(*args, **kwargs):
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, kill)
        worker = multiprocessing.get_context("fork").Process(target=release, args=(A, "r", *ID))
        worker.start()
        worker.join(60)
    assert worker.exitcode == -signal.SIGKILL and not Path("r.parquet").exists()


def test_a_kill_before_the_booking_leaves_no_release(monkeypatch, capsys):
    killed(monkeypatch, streaming, "draw")
    assert not Path("t.csv.ledger").exists()
    assert release(A, "r", *ID) == 0 and set(spent("r").values()) == {1}


def test_a_kill_after_the_booking_is_finished_by_hand(monkeypatch, capsys):
    killed(monkeypatch, os, "replace")
    [partial] = Path().glob(".r.parquet.*.partial")
    for more in ([], ["--again"]):
        assert release(A, "s", *ID, *more) == 2
        refused(capsys, "was cut off", f"mv {partial.absolute()} ")
    os.rename(partial, "r.parquet")
    assert release(A, "s", *ID) == 2
    refused(capsys, "--again")
    assert release(A, "s", *ID, "--again") == 0 and set(spent("s").values()) == {2}


def test_a_booking_whose_file_is_gone_counts_and_is_told(monkeypatch, capsys):
    killed(monkeypatch, os, "replace")
    os.remove(*Path().glob(".r.parquet.*.partial"))
    assert release(A, "s", *ID, "--again") == 0
    assert "r.parquet is booked" in capsys.readouterr().err and set(spent("s").values()) == {2}


LABELS = np.random.default_rng(0).choice(["yes", "no"], 200)


def test_python_and_the_command_share_a_ledger(capsys):
    ledger = ldp.Ledger("t.csv.ledger")
    ldp.privatize(["yes", "no"] * 5, row_ids=A, ledger=ledger, **GIVEN)
    assert release(A, "r", *ID) == 2
    assert release(A, "r", *ID, "--again") == 0
    with pytest.raises(BudgetError, match="3 in total"):
        ldp.privatize(["yes", "no"] * 5, row_ids=A, ledger=ldp.Ledger("t.csv.ledger"), **GIVEN)
    ldp.privatize(LABELS, ledger=ldp.Ledger("places"), **GIVEN)
    with pytest.raises(InputError, match="row_ids="):
        ldp.privatize(LABELS[::-1], ledger=ldp.Ledger("places"), **GIVEN)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"classes": ["no", "yes", "never"]},
        {"row_ids": [f"row {row}" for row in range(200)]},
        {"row_ids": range(200), "labels": LABELS[::-1].copy()},
        {"persons": np.arange(200) // 2, "most_rows": 1},
    ],
)
def test_a_second_release_in_one_program_is_refused(other, monkeypatch):
    monkeypatch.setattr("labeldp.privatization._PROGRAM", ldp.Ledger())
    first = {"row_ids": range(200)} if "labels" in other else {}
    ldp.privatize(LABELS, **GIVEN, **first)
    with pytest.raises(BudgetError, match="released before"):
        ldp.privatize(**{"labels": LABELS} | GIVEN | other)
    assert ldp.privatize(**{"labels": LABELS} | GIVEN | other, again=True).eps_spent >= 2
    assert ldp.privatize(LABELS[:100], **GIVEN).eps_spent == 1  # another table
    assert ldp.privatize(LABELS, **GIVEN, **first, ledger=ldp.Ledger()).eps_spent == 1


def test_persons_and_numbers_in_python():
    ledger, labels, persons = ldp.Ledger(), ["yes", "no"] * 4, [1, 1, 1, 1, 2, 2, 2, 2]
    given = {**GIVEN, "ledger": ledger, "again": True}
    ldp.privatize(labels, persons=persons, **given)
    second = ldp.privatize(labels, persons=persons, most_rows=1, **given)
    assert second.spent.tolist() == [2, 2] and second[:1].eps_spent == 2
    with pytest.raises(InputError, match="counts persons"):
        ldp.privatize(labels, **given)
    numbers = np.random.default_rng(1).integers(100, size=50)
    ldp.privatize(numbers, bounds=(0, 100), eps=1.0, ledger=ledger)
    with pytest.raises(BudgetError):
        ldp.privatize(numbers.astype(float), bounds=(0, 101), eps=1.0, ledger=ledger)


def test_threads_with_the_same_labels_count_each_other():
    ledger, totals, ended = ldp.Ledger(), [], []

    def run():
        for _ in range(3):
            made = ldp.privatize(LABELS, ledger=ledger, again=True, **GIVEN)
            totals.append(made.eps_spent)
        try:
            ldp.privatize(LABELS, ledger=ledger, **GIVEN)
        except BudgetError:
            ended.append("refused")

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(totals) == list(range(1, 13)) and len(ended) == 4


def test_what_was_drawn_is_booked_and_what_was_refused_is_not():
    ledger = ldp.Ledger()
    for _ in range(2):
        with pytest.raises(InputError):
            ldp.privatize(LABELS, ["yes", "no"], 700, "hadamard", ledger=ledger)
    assert not ledger.entries()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):  # after the draw
            ldp.privatize(LABELS, ["yes", "no"], 0.01, ledger=ledger)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"row_ids": [None, 1]}, "row 0: the row id is missing"),
        ({"row_ids": [1.0, float("nan")]}, "row 1: the row id is missing"),
        ({"row_ids": ["\ud800", "b"]}, "row ids must be texts that UTF-8 can write"),
        ({"persons": ["\ud800", "b"]}, "persons must be texts that UTF-8 can write"),
        ({"persons": [None, "b"]}, "row 0 names no person"),
        ({"source": 5}, "source must be a text"),
        ({"persons_column": 7}, "persons_column must be a text"),
        ({"parameters": [1]}, "parameters must be a dict"),
        ({"persons": ["x", "x"], "most_rows": 10**9}, "eps=1 shared among 1000000000 rows"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_drawn(given, said):
    with pytest.raises(InputError, match=said):
        ldp.privatize(["a", "b"], ["a", "b"], 1.0, **given)
