"""Files that are written in one step, so that nobody finds them half-written; imports no torch."""

import contextlib
import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from labeldp.support.validate import InputError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Kinds of errors that say that nothing more fits: the disk, a quota, the largest file allowed."""
PROBE = bytes(2**16)
"""What is written to learn whether a folder takes anything: an empty file fits a full disk."""


class CannotWrite(InputError):
    """A file cannot be written; the message names it, the reason and a way out.

    Attributes:
        reason: the system's words.
    """

    def __init__(self, path: Path, error: OSError) -> None:
        self.reason = reason_of(error)
        way_out = "free some space" if error.errno in FULL else "see who may write there"
        if error.errno == errno.ENOENT:  # such as in /proc, which is there and takes no file
            way_out = "choose another folder" if path.parent.is_dir() else "make the folder"
        super().__init__(f"cannot write {path}: {self.reason} ({way_out}, and run again)")


def reason_of(error: OSError) -> str:
    """Returns the system's words for an error, without its number and without a path."""
    # Arrow writes number and path into its words.
    return (os.strerror(error.errno) if error.errno else error.strerror or str(error)).lower()


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the system's errors inside into one that names `path`, as that of a full disk does not.

    Raises:
        CannotWrite: nothing can be written there.
    """
    try:
        yield
    except OSError as error:
        raise CannotWrite(path, error) from error


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
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            if file.write(PROBE) < len(PROBE):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise InputError(f"{complaint} ({reason_of(error)})") from error
    return folder


def partial_of(path: Path) -> Path:
    """Returns the name that `replacing` gives to `path` until it is whole."""
    # It has this process's number: two that end the same sweep must not write to one file.
    return path.with_name(f".{path.name}.{os.getpid()}.partial")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path to write to, which then replaces `path` in one step.

    An exception leaves the old file as it was.

    Raises:
        CannotWrite: the system refuses.
    """
    partial = partial_of(path)
    try:
        with writing(path):
            yield partial
            with partial.open("rb+") as file:
                os.fsync(file.fileno())  # else a power cut may keep the name and lose the content
            os.replace(partial, path)
    finally:
        with contextlib.suppress(OSError):  # such as a folder without the right to write
            partial.unlink(missing_ok=True)


def is_partial(path: Path) -> bool:
    """Returns whether a file has a name that `replacing` gives."""
    return re.fullmatch(r"\..+\.\d+\.partial", path.name) is not None


def torn(path: Path) -> list[Path]:
    """Returns what `replacing` left beside `path`, in processes that were killed or still write."""
    name = re.compile(rf"\.{re.escape(path.name)}\.\d+\.partial")
    there = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    return [each for each in there if name.fullmatch(each.name)]


def remove_torn(path: Path, only: str | None = None) -> list[str]:
    """Removes what killed processes left of `path`, while its lock is held; returns the names.

    Args:
        path: of the file.
        only: the one that is removed; None: all.

    Raises:
        CannotWrite: the system refuses.
    """
    left = [each for each in torn(path) if only in (None, str(each))]
    for each in left:
        with writing(each):
            each.unlink(missing_ok=True)
    return [each.name for each in left]


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step; an exception leaves the old one as it was."""
    with replacing(path) as partial:
        partial.write_text(text)


@contextlib.contextmanager
def only_one(path: Path, wait: Callable[[], None], name: str | None = None) -> Iterator[None]:
    """Lets one process at a time make `path`; calls `wait` before waiting for another.

    Args:
        path: of the file, or of one of those that share the lock.
        wait: tells that another process is at it.
        name: of the lock, if files of several names share it; by default that of `path`.

    Raises:
        CannotWrite: the folder takes no file.
    """
    file = path.with_name(f".{name or path.name}.lock")
    lock = FileLock(file)
    with writing(path):
        # The lock waits for ever where the folder takes no file: to it that is another process.
        tempfile.TemporaryFile(dir=path.parent).close()
        try:
            lock.acquire(timeout=0)
        except Timeout:
            wait()
            lock.acquire()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file
            file.unlink()  # safe while it is held: who waits for it sees that it is gone
        lock.release()
