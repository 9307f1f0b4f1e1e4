"""Files in one step, and what is said when the system refuses them."""

import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labeldp.support.files import CannotWrite, only_one, writable_folder, write_text
from labeldp.support.validate import InputError

COMPLAINT = "out_dir must be a folder one can write to"


@contextmanager
def full_disk() -> Iterator[None]:
    """Lets no file grow beyond 1,000 bytes, as a full disk would; the system says why."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        yield
    finally:  # pytest's own report may be a longer file
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_named_with_the_file_and_leaves_the_old_one(tmp_path):
    # `[Errno 28] No space left on device` says neither which disk nor what to do.
    path = tmp_path / "table.csv"
    write_text(path, "old")
    with full_disk(), pytest.raises(CannotWrite) as caught:
        write_text(path, "new" * 1000)
    assert str(caught.value) == (
        f"cannot write {path}: file too large (free some space, and run again)"
    )
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(path, "old")]


def test_a_full_disk_is_noticed_before_anything_runs(tmp_path):
    # An empty file fits a full disk; hours later the record would not.
    expected = rf"^{COMPLAINT} \((no space left|file too large)"
    with full_disk(), pytest.raises(InputError, match=expected):
        writable_folder(str(tmp_path), COMPLAINT)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_takes_no_file_is_refused_and_not_waited_for():
    # "No such file" is another process to the lock, which waited for it for ever.
    path = Path("/proc/x.parquet")
    expected = f"^cannot write {path}: no such file or directory \\(choose another folder"
    with pytest.raises(CannotWrite, match=expected), only_one(path, lambda: pytest.fail("waits")):
        pass


def test_one_at_a_time_and_no_lock_is_left(tmp_path):
    # A hidden file stayed beside each release. One of those who wait takes over, never two.
    path, context = tmp_path / "total", multiprocessing.get_context("fork")
    path.write_text("0")

    def add() -> None:
        for _ in range(5):
            with only_one(path, lambda: None):
                total = int(path.read_text())
                time.sleep(0.002)
                path.write_text(str(total + 1))

    processes = [context.Process(target=add) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert path.read_text() == "20"
    assert os.listdir(tmp_path) == ["total"]
