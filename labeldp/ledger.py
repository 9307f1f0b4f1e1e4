"""The ledger: what each row, or each person, has spent on all releases so far.

A ledger names rows in one way, and counts one unit, for its life: those of its first release. A
ledger in a file is as secret as the labels: it holds which rows were released, though under keyed
hashes whose key is inside.
"""

import contextlib
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeldp.accounted_rows import (
    COMMAND,
    PYTHON,
    AccountedRows,
    Before,
    Entry,
    RowAccount,
    check_naming,
    is_counted,
    name_of_part,
    refusal,
)
from labeldp.manifest import Manifest
from labeldp.store import BudgetError
from labeldp.support.files import only_one, partial_of, remove_torn, replacing, writing
from labeldp.support.validate import InputError

VERSION = 2
"""1: an entry that counts persons does not say how its rows are named; none has `any_order`."""
PATIENCE = 5.0
"""Seconds to wait for another process that writes to the same ledger."""
SCHEMA = """
CREATE TABLE ledger (version INTEGER, key BLOB);
CREATE TABLE releases (
    name TEXT PRIMARY KEY, identity TEXT, eps REAL, label TEXT, time TEXT, file TEXT, partial TEXT,
    kind TEXT, named_by TEXT, size INTEGER, keys BLOB, digest BLOB, row_id TEXT, any_order BLOB,
    row_keys BLOB
);
"""
FROM_VERSION_1 = """
ALTER TABLE releases ADD COLUMN row_id TEXT;
ALTER TABLE releases ADD COLUMN any_order BLOB DEFAULT x'';
ALTER TABLE releases ADD COLUMN row_keys BLOB DEFAULT x'';
UPDATE releases SET row_id = CASE kind WHEN 'row' THEN named_by WHEN 'place' THEN '' END;
UPDATE ledger SET version = 2;
"""
OWN = {("table", "ledger"), ("table", "releases"), ("index", "sqlite_autoindex_releases_1")}
"""All that a ledger's file holds."""
UNWRITABLE = tuple(f"SQLITE_{each}" for each in ("READONLY", "CANTOPEN", "PERM", "FULL", "IOERR"))
INSERT = f"INSERT INTO releases VALUES ({', '.join('?' * len(Entry._fields))})"
SELECT = f"SELECT {', '.join(Entry._fields)} FROM releases ORDER BY rowid"
DELETE = "DELETE FROM releases WHERE name = ?"
IS_WHOLE = "UPDATE releases SET partial = '' WHERE name = ?"


LEDGERS: "weakref.WeakSet[Ledger]" = weakref.WeakSet()
"""Those of this program, whose locks a forked process renews."""


class Ledger:
    """The account of what rows have spent on releases; all of them add up.

    Args:
        path: an SQLite file, made at the first release; only its owner may read it. None: in
            memory, until the program ends.

    >>> from labeldp import privatize
    >>> ledger, labels = Ledger(), ["no", "yes"] * 50
    >>> for again in (False, True):
    ...     one = privatize(labels, ["no", "yes"], 1.0, ledger=ledger, again=again)
    >>> one.eps_spent
    2.0
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._one_thread = threading.RLock()
        self._memory = None if path is not None else _created(":memory:")
        LEDGERS.add(self)

    def __reduce__(self) -> tuple[type["Ledger"], tuple[str]]:
        if self.path is None:
            raise InputError(
                "a ledger in memory cannot be given to another process, which would not see what "
                "this one books (give it a file: Ledger('survey.csv.ledger'))"
            )
        return Ledger, (os.path.abspath(self.path),)

    def renew_lock(self) -> None:
        """Ends, in a forked process, what another thread of the first one was doing."""
        self._one_thread = threading.RLock()
        with contextlib.suppress(sqlite3.Error):
            _ = self._memory and self._memory.execute("ROLLBACK")

    def __repr__(self) -> str:
        return f"Ledger({'' if self.path is None else repr(str(self.path))})"

    @property
    def exists(self) -> bool:
        """Whether the ledger has been started."""
        return self.path is None or os.path.lexists(self.path)

    def entries(self) -> list[Entry]:
        """Returns all releases, in the order in which they were booked."""
        if not self.exists:
            return []
        with self._opened() as database:
            return self._entries(database)

    def settle(self) -> list[str]:
        """Clears up after releases that were cut off; returns what to say of each.

        What was written of such a file is removed, with its entry: no one has seen the file. One
        whose file is neither whole nor torn stays booked.
        """
        if not self.exists:
            return []
        notes = []
        with self._opened() as database, _transaction(database):
            for each in self._entries(database):
                file, is_booked = Path(each.file), True
                if each.partial and not file.exists():
                    is_booked = not remove_torn(file, only=each.partial)
                    what = "its file is gone" if is_booked else (
                        "it was cut off; what it had written is removed, and it does not count"
                    )  # fmt: skip
                    notes.append(f"the release {file} is booked in {self.path} "
                                 f"(eps={each.eps:g}): {what}")  # fmt: skip
                if each.partial:
                    database.execute(IS_WHOLE if is_booked else DELETE, (each.name,))
        return notes

    @contextlib.contextmanager
    def charge(
        self, manifest: Manifest, rows: AccountedRows, *, again: bool,
        options: dict[str, str] = PYTHON, file: Path | None = None,
    ) -> Iterator[tuple[Manifest, Before]]:  # fmt: skip
        """Books a release before it is made inside; what raises inside is taken off again.

        Yields its manifest, which names the releases before it, and what rows had spent. A release
        that is killed inside stays booked until `settle` finds what is left of its file.

        Args:
            manifest: of the release, as if it were the first.
            rows: whose labels are released.
            again: whether they may have spent something before.
            options: `COMMAND` or `PYTHON`, for messages.
            file: of the release, if it has one; it is written by `replacing`.

        Raises:
            BudgetError: some rows were released before, and `again` is false.
            InputError: what the rows have spent is unknown; the ledger cannot be written, is
                damaged, or another process uses it.
        """
        partial, trace = None if file is None else partial_of(file).absolute(), None
        with self._opened(starts=True) as database:
            try:
                with _transaction(database):
                    known, key = self._entries(database), _key(database)
                    account = RowAccount(known, key, rows, options, self.path)
                    before = account.before(again)
                    made = before.added_to(manifest).checked()
                    if before.entries and not again:
                        raise BudgetError(refusal(before, made.eps, options["again"], self.path))
                    entry = account.entry(made)
                    if file is not None and partial is not None:
                        with writing(file):
                            partial.touch()  # so that `settle` finds a trace of whatever is booked
                            trace = partial.stat().st_ino
                        entry = entry._replace(file=str(file.absolute()), partial=str(partial))
                    database.execute(INSERT, entry)
                with _transaction(database, commits=False):  # no other process settles it meanwhile
                    yield made, before
            except BaseException:
                # The interrupt may come when the file has its name, and then it counts.
                if trace is None or not _is_file(file, trace):
                    with contextlib.suppress(sqlite3.Error):  # then it counts, and its file is gone
                        database.execute(DELETE, (manifest.release,))
                    with contextlib.suppress(OSError):
                        if partial is not None:
                            partial.unlink(missing_ok=True)
                raise
            with contextlib.suppress(sqlite3.Error):  # the file is there, which `settle` sees
                database.execute(IS_WHOLE, (made.release,))

    def check_holds(self, manifest: Manifest) -> None:
        """Refuses to go on where the ledger's file was moved or replaced since the booking."""
        if manifest.release not in {each.name for each in self.entries()}:
            raise InputError(f"{self.path} was moved or replaced meanwhile; nothing was released")

    def book(
        self, manifest: Manifest, ids: NDArray, spent: NDArray[np.float64], rows: AccountedRows,
        file: Path,
    ) -> None:  # fmt: skip
        """Books a release that was made without this ledger, from its file.

        It costs what it says that its rows have spent, unless the ledger holds all the earlier
        releases that are in this number.

        Args:
            manifest: of the release.
            ids: of its rows.
            spent: by its rows, in total.
            rows: all rows of the file that it was made from.
            file: of the release.

        Raises:
            InputError: it names rows or counts persons in another way than the ledger or `rows`.
        """
        with self._opened(starts=True) as database, _transaction(database):
            row_id = "" if is_counted(manifest, ids) else manifest.row_id
            unit = manifest.unit.column if manifest.unit else ""
            check_naming(f"{file}", (row_id, unit), (rows.row_id, rows.unit), COMMAND)
            some = rows.of_release(manifest, ids, file)
            account = RowAccount(self._entries(database), _key(database), some, COMMAND, self.path)
            entry = account.entry(manifest)
            if not set(manifest.counted) <= account.paid_by_all():
                entry = entry._replace(eps=max(entry.eps, float(spent.max(initial=0.0))))
            name = name_of_part(manifest, ids)
            database.execute(INSERT, entry._replace(name=name, file=str(file.absolute())))

    def knows(self, manifest: Manifest, ids: NDArray) -> bool:
        """Returns whether a release, of which a file holds these rows, is booked."""
        known = {each.name for each in self.entries()}
        return manifest.release in known or name_of_part(manifest, ids) in known

    def _entries(self, database: sqlite3.Connection) -> list[Entry]:
        entries = [Entry(*row) for row in database.execute(SELECT).fetchall()]
        if self.path is not None and not all(each.is_sound() for each in entries):
            raise sqlite3.DatabaseError
        return entries

    @contextlib.contextmanager
    def _opened(self, starts: bool = False) -> Iterator[sqlite3.Connection]:
        """Yields the tables to one thread at a time; `starts` a ledger that is not there yet."""
        with self._one_thread:
            if self._memory is not None:
                yield self._memory
                return
            assert self.path is not None, "a ledger that is not in memory has a path"
            with _as_input_error(self.path):
                if starts and not self.exists:
                    _start(self.path)
                with contextlib.closing(_connected(self.path)) as database:
                    _check(database, self.path)
                    yield database


def _renew_locks() -> None:
    """Makes ledgers usable in a forked process, where no thread is left to give back a lock."""
    for each in LEDGERS:
        each.renew_lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_locks)


def _is_file(file: Path | None, inode: int) -> bool:
    return file is not None and file.exists() and file.stat().st_ino == inode


def _start(path: Path) -> None:
    """Makes a ledger without releases, unless another process has made one in the meantime."""
    with only_one(path, wait=lambda: None):
        remove_torn(path)
        if os.path.lexists(path):
            return
        with replacing(path) as partial:
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            _created(partial).close()


def _created(path: str | Path) -> sqlite3.Connection:
    """Returns an empty ledger."""
    database = _connected(path)
    database.executescript(SCHEMA)
    database.execute("INSERT INTO ledger VALUES (?, ?)", (VERSION, secrets.token_bytes(32)))
    return database


def _check(database: sqlite3.Connection, path: Path) -> None:
    """Refuses a ledger that is damaged or of a newer version; brings an older one up to date."""
    there = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    # A view or a trigger could say, or keep, another account than the one that is booked.
    if {(kind, name) for kind, name, _ in there} - OWN or "CONFLICT" in str(there).upper():
        raise sqlite3.DatabaseError
    rows = database.execute("SELECT version, key FROM ledger").fetchall()
    version, key = rows[0] if len(rows) == 1 else (None, None)
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{path} was written by a newer version (install a newer labeldp-bench)")
    if version not in range(1, VERSION + 1) or not (isinstance(key, bytes) and len(key) == 32):
        raise sqlite3.DatabaseError
    if version == 1:
        with _transaction(database):
            for statement in FROM_VERSION_1.split(";"):
                database.execute(statement)


def _connected(path: str | Path) -> sqlite3.Connection:
    # Else a link to nowhere would be followed, and an empty file made there.
    name = path if path == ":memory:" else f"{Path(path).absolute().as_uri()}?mode=rw"
    return sqlite3.connect(
        name, PATIENCE, isolation_level=None, check_same_thread=False, uri=name != path
    )


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection, commits: bool = True) -> Iterator[None]:
    """Nobody else writes meanwhile; what raises inside changes nothing."""
    try:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("COMMIT" if commits else "ROLLBACK")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _as_input_error(path: Path) -> Iterator[None]:
    """Turns what SQLite says of a ledger into one line."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorname", None) or ""
        if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            what = "is used by another release (wait until it ends)"
        elif code.startswith(UNWRITABLE):
            what = "cannot be written (see who may write there, and whether the disk is full)"
        else:
            what = "is damaged, or no ledger (restore it from a copy, or name another by --ledger)"
        raise InputError(f"{path} {what}; nothing was released") from None


def _key(database: sqlite3.Connection) -> bytes:
    return database.execute("SELECT key FROM ledger").fetchone()[0]
