"""Loading by name: the ways out where nothing can be had, one writer, no half file."""

import threading

import numpy as np
import pytest

from labeldp_bench.data import official
from labeldp_bench.data.images import ImageData, load_images
from tests.images import make_arrays, write_npz


def test_without_torchvision_the_ways_out_are_said(tmp_path, monkeypatch):
    """If it failed, a machine without torchvision could not even say what to do."""

    def missing():
        raise ModuleNotFoundError("No module named 'torchvision'")

    monkeypatch.setattr(official, "import_torchvision", missing)
    with pytest.raises(official.NotAvailable, match=r"No module named 'torchvision' \(three ways"):
        load_images(tmp_path, "mnist", 10)


def test_torchvision_is_not_imported_for_a_file_that_is_there(tmp_path, monkeypatch):
    """If it failed, every run would pay for, or fail at, an import that it does not need."""
    monkeypatch.setattr(official, "import_torchvision", lambda: pytest.fail("imported"))
    write_npz(tmp_path, "mnist", **make_arrays())
    load_images(tmp_path, "mnist", 4)


def test_unknown_name_has_two_ways_out(tmp_path):
    """If it failed, a missing own file would send the user to a download that cannot help."""
    with pytest.raises(official.NotAvailable, match="mine is none of those") as caught:
        ImageData("mine", 4).draw(tmp_path / "nowhere", seed=0)
    assert "two ways out" in str(caught.value)
    assert "make data" not in str(caught.value)
    assert not (tmp_path / "nowhere").exists()


def test_two_loaders_write_the_file_once(tmp_path, monkeypatch, capfd):
    """If it failed, runs that start together would each download, and read half a file."""
    arrays, calls, results = make_arrays(), [], []
    waiting = threading.Semaphore(0)

    def say(*texts, **options):
        print(*texts, **options)
        waiting.release()

    def slow(name, path):
        calls.append(name)
        for _ in range(2):  # until both others have come
            assert waiting.acquire(timeout=60)
        return arrays

    monkeypatch.setattr(official, "print", say, raising=False)
    monkeypatch.setattr(official, "_read_official", slow)
    threads = [
        threading.Thread(target=lambda: results.append(load_images(tmp_path, "mnist", 4)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == ["mnist"]
    assert len(results) == 3
    assert capfd.readouterr().err.count("waiting for the process that fetches mnist") == 2


def test_interrupted_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    """If it failed, a full disk would leave half a file that the next run takes for the data."""

    def full_disk(file, **_):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(official, "_read_official", lambda *_: make_arrays())
    monkeypatch.setattr(np, "savez", full_disk)
    with pytest.raises(official.NotAvailable, match="No space left"):
        load_images(tmp_path, "mnist", 4)
    assert [path.name for path in tmp_path.iterdir() if "lock" not in path.name] == []
