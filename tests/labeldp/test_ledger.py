"""The ledger: every release of a row adds up, and nothing is released that is not booked."""

import json
import multiprocessing
import os
import pickle
import signal
import sqlite3
import threading
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp import ledger as ledger_module
from labeldp import streaming
from labeldp.accounted_rows import AccountedRows, RowAccount
from labeldp.cli.__main__ import main
from labeldp.manifest import Manifest, Unit
from labeldp.mechanisms import RandomizedResponse
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
    for ids, answers in ((B[:5] + A, ["yes", "no"]), (A, ["no", "yes"])):
        assert release(ids, "r4", "--again", answers=answers) == 2
        refused(capsys, "rows may have moved", "--ledger PATH")


OTHER = ["--row-id", "mail"]
HOUSE = ["--unit", "house"]
NAMINGS = [[], ID, OTHER, UNIT, [*ID, *UNIT], [*OTHER, *UNIT], [*ID, *HOUSE]]


@pytest.mark.parametrize("first", range(len(NAMINGS)))
def test_a_ledger_has_one_naming_of_rows_and_one_unit(first, capsys):
    # The same file, named by another column, gave a second full release at no cost; persons first
    # and households later counted 1 where 4 was spent.
    table = pd.DataFrame(
        {"id": A, "person": [each // 2 for each in A], "answer": ["yes", "no"] * 5}
    )
    table.assign(mail=[f"m{each}" for each in A], house=table.person // 3).to_csv("t.csv")
    given = [
        "release",
        "t.csv",
        "--label",
        "answer",
        "--classes",
        "yes,no",
        "--eps",
        "1",
        "--again",
    ]
    command = [*given[:-1], *NAMINGS[first], "--out", "r.parquet"]
    assert main(command) == 0
    Path("o").mkdir()
    for number, naming in enumerate(NAMINGS):
        capsys.readouterr()
        ledgers = [["--ledger", "t.csv.ledger"], ["--ledger", "new", "--book", "r.parquet"]]
        for ledger in ledgers if number != first else ():
            assert main([*given, *naming, *ledger, "--out", "o/s.parquet"]) == 2
            refused(capsys, "--ledger PATH is for really other rows")
            assert not os.listdir("o")
    assert main([*given, *NAMINGS[first], "--ledger", "new", "--book", "r.parquet",
                 "--out", "o/s.parquet"]) == 0  # fmt: skip
    assert set(spent("o/s").values()) == {2}


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
@pytest.mark.parametrize("more", [ID, [*ID, *UNIT]])
def test_the_same_labels_under_other_names_are_refused(more, order, capsys):
    # Ids that were numbered anew made a second release at no cost.
    def write(ids, answers, column="answer"):
        table = pd.DataFrame({"id": ids, column: answers, "person": [f"p{each}" for each in ids]})
        table.to_csv("t.csv", index=False)
        return ["release", "t.csv", "--classes", "yes,no", "--eps", "1", *more, "--label", column]

    answers = np.random.default_rng(0).choice(["yes", "no"], 400)
    assert main([*write(range(400), answers), "--out", "r.parquet"]) == 0
    for column in ("answer", "ANSWER"):
        again = write(range(900, 1300), answers[order], column)
        for flag in ([], ["--again"]):
            assert main([*again, "--out", "s.parquet", *flag]) == 2
            refused(capsys, "under other names", "--ledger PATH")
    answers[0] = "no" if answers[0] == "yes" else "yes"
    assert main([*write(range(900, 1300), answers), "--out", "s.parquet"]) == 0


def test_a_person_counts_rows_and_releases(capsys):
    ids, both = [100, 101, 102, 103, 200], [*ID, *UNIT]
    assert release(ids, "r1", *both) == 0
    assert release(ids, "r2", *both, "--most-rows", "2", "--again") == 0
    assert spent("r2") == {"100": 2, "101": 2, "200": 2}
    # A person who comes again with another row.
    assert release([105, 300], "r3", *both, "--again") == 0
    assert spent("r3") == {"105": 3, "300": 1}


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_against_a_plain_account(seed):
    stream, ledger, account = np.random.default_rng(seed), ldp.Ledger("x"), Counter()
    persons = np.array(["a", "b", "c", "d"]).repeat(3)
    by_person = stream.random() < 0.5
    for _ in range(8):
        rows = np.flatnonzero(stream.random(12) < 0.7)
        eps = float(stream.integers(1, 4))
        unit = Unit("who", 3) if by_person else None
        accounted = AccountedRows(len(rows), lambda name: None, "y", rows, "id")
        if by_person:
            accounted = replace(accounted, persons=persons[rows], unit="who")
        names = persons[rows] if by_person else rows
        made = Manifest("rr", RandomizedResponse(eps), eps, ("a", "b"), unit=unit)
        with ledger.charge(made, accounted, again=True) as (_, before):
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
    for more, column in ((ID, "--unit person"), (UNIT, "--row-id id")):
        assert release(ids, "r2", *more, "--book", "r1.parquet") == 2
        refused(capsys, "r1.parquet", column)
    both = [*ID, *UNIT, "--again"]
    assert release(ids[:3], "r2", *both, "--book", "r1.parquet") == 2
    assert release(ids, "r2", *both, "--book", "r1.parquet") == 0
    assert set(spent("r2").values()) == {2}


def as_older(path):
    """Writes a file as versions before November 2026 did: rows' own spend, and no names."""
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"labeldp"])
    for key in ("release", "counted", "row_id", "num_rows", "date"):
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


def killed(monkeypatch, owner, name, at=1, after=False):
    """Releases A as r.parquet in a process that is killed before or after a call."""
    calls, original = [], getattr(owner, name)

    def kill(*args, **kwargs):
        calls.append(1)
        result = original(*args, **kwargs) if after and len(calls) == at else None
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result or original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, kill)
        worker = multiprocessing.get_context("fork").Process(target=release, args=(A, "r", *ID))
        worker.start()
        worker.join(60)
    assert worker.exitcode == -signal.SIGKILL


KILLS = [
    (ledger_module, "_created", 1, False),  # before the ledger has its tables
    (ledger_module, "_created", 1, True),
    (os, "replace", 1, False),  # before the ledger has its name
    (os, "replace", 1, True),
    (RowAccount, "entry", 1, True),  # before the booking
    (streaming, "draw", 1, False),
    (streaming, "part_of", 1, True),
    (streaming, "write_parts", 1, True),  # a whole file that is not called r.parquet yet
    (os, "replace", 2, False),
    (os, "replace", 2, True),
]


@pytest.mark.parametrize(("owner", "name", "at", "after"), KILLS)
def test_the_same_command_clears_up_after_a_kill(owner, name, at, after, monkeypatch, capsys):
    # A torn file beside the output was refused, with advice that led to a second, uncounted draw.
    killed(monkeypatch, owner, name, at, after)
    is_there = Path("r.parquet").exists()
    assert is_there == ((name, at, after) == ("replace", 2, True))
    assert release(A, "r", *ID) == (2 if is_there else 0)
    if is_there:
        refused(capsys, "r.parquet is there already")
    left = {".t.csv.ledger.lock"}  # an empty file
    assert set(os.listdir()) - left == {"r.parquet", "t.csv", "t.csv.ledger"}
    assert set(spent("r").values()) == {1} and len(ldp.Ledger("t.csv.ledger").entries()) == 1
    assert release(A, "s", *ID) == 2
    refused(capsys, "--again")
    assert release(A, "s", *ID, "--again") == 0 and set(spent("s").values()) == {2}


def test_a_booking_whose_file_is_gone_counts_and_is_told(monkeypatch, capsys):
    killed(monkeypatch, os, "replace", 2, True)
    os.remove("r.parquet")  # somebody may have it
    assert release(A, "s", *ID, "--again") == 0
    assert "r.parquet is booked" in capsys.readouterr().err and set(spent("s").values()) == {2}


def as_version_1(path):
    """Writes a ledger as versions before December 2026 did."""
    with sqlite3.connect(path) as database:
        for column in ("row_id", "any_order", "row_keys"):
            database.execute(f"ALTER TABLE releases DROP COLUMN {column}")
        database.execute("UPDATE ledger SET version = 1")


@pytest.mark.parametrize("more", [[], ID, [*ID, *UNIT]])
def test_a_ledger_of_an_older_version_goes_on(more, capsys):
    assert release(A, "r1", *more) == 0
    as_version_1("t.csv.ledger")
    assert release(A, "r2", *more) == 2
    refused(capsys, "eps=1", "--again")
    assert release(A, "r2", *more, "--again") == 0 and set(spent("r2").values()) == {2}
    assert release(A, "r3", *OTHER, "--again") == 2


@pytest.mark.parametrize("point", ["replace", "check_holds"])
def test_an_interrupt_leaves_no_release_that_is_not_booked(point, monkeypatch, capsys):
    # The file had its name, and its entry was taken off.
    original = os.replace

    def interrupted(old, new):
        original(old, new)
        if str(new).endswith("r.parquet"):
            raise KeyboardInterrupt

    def booked(self, manifest):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if point == "replace":
            patch.setattr(os, "replace", interrupted)
        else:
            patch.setattr(ldp.Ledger, "check_holds", booked)
        assert release(A, "r", *ID) == 130
    is_there = Path("r.parquet").exists()
    assert is_there == (point == "replace")
    assert len(ldp.Ledger("t.csv.ledger").entries()) == is_there
    assert not list(Path().glob(".*.partial"))
    assert release(A, "s", *ID) == (2 if is_there else 0)


@pytest.mark.parametrize("moved", [True, False])
def test_a_ledger_that_is_moved_meanwhile_ends_the_release(moved, monkeypatch, capsys):
    assert release(B, "q", *ID) == 0
    older = Path("t.csv.ledger").read_bytes()
    original = streaming.draw

    def draw(*given):
        os.remove("t.csv.ledger")
        if not moved:
            Path("t.csv.ledger").write_bytes(older)
        return original(*given)

    monkeypatch.setattr(streaming, "draw", draw)
    assert release(A, "r", *ID) == 2
    refused(capsys, "t.csv.ledger was moved or replaced", "nothing was released")
    assert not Path("r.parquet").exists()


def test_a_part_of_an_earlier_release_stands_for_its_own_rows_only():
    assert release(A, "r1", *ID, "--ledger", "x") == 0
    assert release(A, "r2", *ID, "--ledger", "x", "--again") == 0
    ldp.load_release("r1.parquet")[:3].save("part.parquet")
    os.remove("r1.parquet")
    books = ["--book", "part.parquet", "--book", "r2.parquet"]
    assert release(A, "r3", *ID, "--ledger", "y", "--again", *books) == 0
    assert min(spent("r3").values()) == 3  # r2 says that its rows have spent 2


def test_a_link_to_the_file_has_its_ledger(capsys):
    assert release(A, "r", *ID) == 0
    os.symlink("t.csv", "link.csv")
    Path("o").mkdir()
    given = ["release", "link.csv", "--label", "answer", "--classes", "yes,no", "--eps", "1"]
    assert main([*given, *ID, "--out", "o/r.parquet"]) == 2
    refused(capsys, "t.csv.ledger", "--again")


EDITS = [
    "ledger SET version = NULL", "ledger SET version = 'one'", "ledger SET version = 0",
    "ledger SET key = NULL", "ledger SET key = x'00'", "releases SET keys = substr(keys, 1, 5)",
    "releases SET keys = NULL", "releases SET keys = 'text'", "releases SET eps = 'abc'",
    "releases SET eps = -5", "releases SET eps = 0", "releases SET eps = NULL",
    "releases SET name = NULL", "releases SET identity = NULL", "releases SET label = x'ff'",
    "releases SET label = CAST(x'ff' AS TEXT)", "releases SET kind = 'house'",
    "releases SET size = -1", "releases SET size = 3", "releases SET size = 'many'",
    "releases SET identity = char(27)", "releases SET digest = 5",
    "releases SET row_id = x'05'", "releases SET file = NULL",
]  # fmt: skip


OTHER_TABLES = [
    ["CREATE TRIGGER t AFTER INSERT ON releases BEGIN DELETE FROM releases; END"],
    ["ALTER TABLE releases RENAME TO r", "CREATE VIEW releases AS SELECT * FROM r"],
    ["CREATE TABLE more (x)"],
]


@pytest.mark.parametrize("statements", OTHER_TABLES)
def test_a_ledger_holds_its_two_tables_only(statements, capsys):
    # A trigger took off what was booked, and the release went out.
    assert release(A, "r1", *ID, "--ledger", "x") == 0
    for statement in statements:
        _changed(statement)
    assert release(A, "r2", *ID, "--ledger", "x", "--again") == 2
    refused(capsys, "x is damaged")


@pytest.mark.parametrize("edit", EDITS)
def test_a_damaged_ledger_is_one_line_and_nothing_is_drawn(edit, monkeypatch, capsys):
    # Ten of 21 edits were a traceback, and an entry of eps=-5 was added.
    assert release(A, "r1", *ID, "--ledger", "x") == 0
    _changed(f"UPDATE {edit}")
    monkeypatch.setattr(streaming, "draw", None)
    assert release(A, "r2", *ID, "--ledger", "x", "--again") == 2
    refused(capsys, "x is damaged", "nothing was released")


def test_a_ledger_names_no_file_to_remove(capsys):
    # What is said of a torn file could remove any file of its owner.
    assert release(A, "r1", *ID, "--ledger", "x") == 0
    Path("mine").write_text("mine")
    _changed(f"UPDATE releases SET partial = '{Path('mine').absolute()}', file = '/nowhere/r1'")
    assert release(A, "r2", *ID, "--ledger", "x", "--again") == 0
    assert Path("mine").exists() and set(spent("r2").values()) == {2}


LABELS = np.random.default_rng(0).choice(["yes", "no"], 200)


def test_python_and_the_command_share_a_ledger(capsys):
    ledger = ldp.Ledger("t.csv.ledger")
    ldp.privatize(["yes", "no"] * 5, row_ids=A, ledger=ledger, **GIVEN)
    assert release(A, "r", *ID) == 2
    assert release(A, "r", *ID, "--again") == 0
    with pytest.raises(BudgetError, match="3 in total"):
        ldp.privatize(["yes", "no"] * 5, row_ids=A, ledger=ldp.Ledger("t.csv.ledger"), **GIVEN)
    ldp.privatize(LABELS, ledger=ldp.Ledger("places"), **GIVEN)
    with pytest.raises(InputError, match="rows may have moved"):
        ldp.privatize(LABELS[::-1], ledger=ldp.Ledger("places"), **GIVEN)
    for other in ({"row_ids": range(200)}, {"persons": range(200)}):
        with pytest.raises(InputError, match=r"knows rows by their places|counts each row"):
            ldp.privatize(LABELS, ledger=ldp.Ledger("places"), **GIVEN, **other)


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


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_other_row_ids_of_the_same_labels_are_refused_in_python(order, again):
    # In memory, where the labels' digest was kept, it was a second release without a note.
    ledger, labels = ldp.Ledger(), np.tile(LABELS, 3)
    ldp.privatize(labels, row_ids=[f"p{row}" for row in range(600)], ledger=ledger, **GIVEN)
    other = {"row_ids": [f"m{row}" for row in range(600)], "ledger": ledger, "again": again}
    with pytest.raises(BudgetError, match="under other names"):
        ldp.privatize(labels[order], **other, **GIVEN)
    labels[0] = "no" if labels[0] == "yes" else "yes"
    assert ldp.privatize(labels, **other, **GIVEN).eps_spent == 1


def test_persons_and_their_rows_are_not_released_twice_in_a_program():
    # Rows that were released under persons were free again under their own ids.
    ledger, persons = ldp.Ledger(), np.arange(200) // 2
    ldp.privatize(LABELS, row_ids=range(200), persons=persons, ledger=ledger, **GIVEN)
    for rows in (slice(0, 10), slice(None)):
        with pytest.raises(BudgetError, match="persons were counted"):
            ids = np.arange(200)[rows]
            ldp.privatize(LABELS[::-1][rows], row_ids=ids, ledger=ledger, **GIVEN)


@pytest.mark.parametrize("path", [None, "x"])
def test_a_forked_process_does_not_wait_for_a_thread_that_it_has_not(path):
    ledger = ldp.Ledger(path)
    rows = AccountedRows(2, lambda name: None, "y", np.arange(2), "id")
    with ledger.charge(Manifest("rr", RandomizedResponse(1.0), 1.0, ("a", "b")), rows, again=False):
        context = multiprocessing.get_context("fork")
        started = context.Queue()
        thread = threading.Thread(target=_fork, args=(context, ledger, started))
        thread.start()
        thread.join(60)
    assert started.get(timeout=10) == 0


def _fork(context, ledger, ended):
    child = context.Process(target=lambda: ledger.entries())
    child.start()
    child.join(20)
    ended.put(child.exitcode)
    child.kill()


def test_workers_get_a_ledger_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = ldp.Ledger("a.ledger")
    ldp.privatize(LABELS, row_ids=range(200), ledger=pickle.loads(pickle.dumps(ledger)), **GIVEN)
    assert len(ledger.entries()) == 1
    with pytest.raises(InputError, match="give it a file"):
        pickle.dumps(ldp.Ledger())


def test_few_labels_are_equal_by_chance():
    # Every other client of one program would be refused.
    ledger = ldp.Ledger()
    for row in range(50):
        ldp.privatize(["yes", "no"], row_ids=[f"{row}a", f"{row}b"], ledger=ledger, **GIVEN)
    assert len(ledger.entries()) == 50


@pytest.mark.parametrize("first", [{}, {"row_ids": range(200)}])
def test_what_again_says_of_a_cost_does_not_depend_on_the_labels(first):
    # Whether the cost was 1 or 2 told whether two columns were equal, whatever eps was.
    changed = LABELS.copy()
    changed[0] = "no" if changed[0] == "yes" else "yes"
    costs = []
    for labels in (LABELS, changed):
        ledger = ldp.Ledger()
        ldp.privatize(LABELS, ledger=ledger, **first, **GIVEN)
        costs.append(ldp.privatize(labels, ledger=ledger, again=True, **GIVEN).eps_spent)
    assert costs == [2, 2]


def test_persons_and_numbers_in_python():
    ledger, labels, persons = ldp.Ledger(), ["yes", "no"] * 40, [1] * 40 + [2] * 40
    given = {**GIVEN, "ledger": ledger, "again": True}
    ldp.privatize(labels, persons=persons, **given)
    second = ldp.privatize(labels, persons=persons, most_rows=1, **given)
    assert second.spent.tolist() == [2, 2] and second[:1].eps_spent == 2
    with pytest.raises(InputError, match="persons were counted"):
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
