"""Files that are written in one step, so that nobody finds them half-written; imports no torch."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from labeldp_bench.support.validate import InputError


def writable_folder(text: str, complaint: str) -> Path:
    """Returns the folder that `text` names; makes it if it is absent.

    Raises:
        InputError: one cannot write there; the message is the complaint and the reason.
    """
    folder = Path(text).expanduser()
    try:
        if not text:
            raise NotADirectoryError(errno.ENOTDIR, "empty")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{complaint} ({reason})") from error
    return folder


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path to write to, which then replaces `path` in one step.

    An exception leaves the old file as it was.
    """
    # The name has this process's number: two that end the same sweep must not write to one file.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())  # otherwise a power cut may keep the name and lose the content
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step; an exception leaves the old one as it was."""
    with replacing(path) as partial:
        partial.write_text(text)


@contextlib.contextmanager
def only_one(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Lets one process at a time make `path`; calls `wait` before waiting for another."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
