"""What Hydra composed before, kept between programs; imports no torch.

Hydra takes a tenth of a second for each combination of choices, and experiments have hundreds.
What it composes follows from the files under configs/ and from the code beside this file: both are
in the name of the file that keeps it. It can be deleted at any time.
"""

import atexit
import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labeldp_bench.support.checkout import CONFIGS

OLD = 7 * 86400
"""Seconds after which a file of other configs is removed, by the next one that is started."""
WAIT = 1.0
"""Seconds to wait for another program that writes."""
AT_ONCE = 500
_unwritten: list[tuple[str, str]] = []


def kept(key: Sequence[str]) -> Any:
    """Returns what a program has kept by this key; None: nothing."""
    row = None
    with contextlib.suppress(sqlite3.Error):
        if (database := _database(os.getpid())) is not None:
            query = "SELECT value FROM composed WHERE key = ?"
            row = database.execute(query, (json.dumps(key),)).fetchone()
    return None if row is None else json.loads(row[0])


def keep(key: Sequence[str], value: Any) -> None:
    """Keeps plain containers for later programs."""
    text = json.dumps(value)
    if json.loads(text) == value:  # not so with keys that are numbers
        _unwritten.append((json.dumps(key), text))
    if len(_unwritten) >= AT_ONCE:
        _write()


@cache
def _database(process: int) -> sqlite3.Connection | None:
    """Returns what is kept of today's configs; None: the folder takes no file.

    A forked process needs a connection of its own.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "labeldp_bench"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"composed-{_content()}.sqlite"
        for other in set(folder.glob("composed-*.sqlite")) - {file} if not file.exists() else ():
            if time.time() - other.stat().st_mtime > OLD:
                other.unlink()
        database = sqlite3.connect(file, timeout=WAIT, isolation_level=None)
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE IF NOT EXISTS composed (key TEXT PRIMARY KEY, value TEXT)")
    except (OSError, RuntimeError, sqlite3.Error):  # no home, or no right to write
        return None
    return database


@atexit.register
def _write() -> None:
    """Writes what is kept in one short transaction."""
    with contextlib.suppress(sqlite3.Error):
        if _unwritten and (database := _database(os.getpid())) is not None:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT OR IGNORE INTO composed VALUES (?, ?)", _unwritten)
            database.execute("COMMIT")
    _unwritten.clear()


def _content() -> str:
    """Returns a digest of all that decides what is composed: configs, code and Hydra's version."""
    digest = hashlib.sha256(repr([version("hydra-core"), version("omegaconf")]).encode())
    for root, kind in ((CONFIGS, "*.yaml"), (Path(__file__).parent, "*.py")):
        for path in sorted(root.rglob(kind)):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
