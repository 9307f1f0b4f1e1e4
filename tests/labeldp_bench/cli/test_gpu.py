"""A stay on a machine without a network, rehearsed on made-up data."""

import runpy
import shutil
import subprocess
import sys
import tarfile
from importlib import metadata

import pytest

from tests.conftest import CHECKOUT
from tests.shell import HANGS

SCRIPT = CHECKOUT / "scripts" / "gpu.py"
UNPACK = """
import pathlib, sys
out = pathlib.Path(sys.argv[1])
source = pathlib.Path(sys.argv[sys.argv.index("--data-dir") + 1])
(out / "tiny.npz").write_bytes((source / "tiny" / "images").read_bytes())
"""


@pytest.fixture
def names(tmp_path, monkeypatch):
    """The names in the script, for a checkout of one file of 1 MiB and a packed data set of 3."""
    names = runpy.run_path(str(SCRIPT))
    script = names["main"].__globals__
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "file").write_bytes(bytes(2**20))
    monkeypatch.setitem(script, "git", lambda *words: "file" if "ls-files" in words else "abc")
    monkeypatch.setitem(script, "ROOT", tmp_path / "checkout")
    data = tmp_path / "packed" / "tiny"
    data.mkdir(parents=True)
    (data / "manifest.json").write_text("{}")
    (data / "images").write_bytes(bytes(range(256)) * 12 * 2**10)
    (data.parent / "unpack.py").write_text(UNPACK)
    listed = [each.metadata["Name"] for each in metadata.distributions()]
    (tmp_path / "installed").write_text(", ".join([*listed, *names["BY_NAME"]]))
    return names


def prepare(names, tmp_path, *words):
    own = [f"data={tmp_path / 'packed'}", f"into={tmp_path / 'parts'}", "datasets=tiny"]
    return names["main"](["prepare", *own, f"installed={tmp_path / 'installed'}", *words])


@pytest.mark.parametrize("wrong", ["call=2", "data=nowhere", "installed=nowhere", "seed=1"])
def test_a_preparation_that_cannot_work_is_one_line(names, tmp_path, wrong, capsys):
    assert prepare(names, tmp_path, wrong) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and wrong.partition("=")[2] in line


def test_parts_fit_a_transfer_and_a_stay_goes_on_after_its_deadline(names, tmp_path):
    assert prepare(names, tmp_path, "call=4") == 0
    for part in (tmp_path / "parts").glob("[0-9]*"):
        assert sum(path.stat().st_size for path in part.iterdir()) + 2**20 <= 4 * 2**20
    shutil.move(tmp_path / "parts" / "1", tmp_path / "later")
    results = tmp_path / "results"
    folders = [f"{key}={tmp_path / key}" for key in ("parts", "work", "results")]
    sweep = ["experiment=quickstart", "budget=smoke", "dataset.num_classes=3", "made_up=0"]

    def run(seconds):
        command = [sys.executable, SCRIPT, "run", *folders, *sweep, f"seconds={seconds}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=HANGS)

    first = run(300)
    assert first.returncode == 0, first.stderr
    assert "1 of 2 parts" in first.stdout and "TFLOP/s" in first.stdout
    assert not (tmp_path / "work" / "runs").exists()
    shutil.move(tmp_path / "later", tmp_path / "parts" / "1")
    assert run(1).returncode == 75  # no time for a cell
    (unpacked,) = (tmp_path / "work").rglob("tiny.npz")
    assert unpacked.read_bytes() == (tmp_path / "packed" / "tiny" / "images").read_bytes()
    ended = run(300)
    assert ended.returncode == 0, ended.stdout
    with tarfile.open(results / "records.tar.gz.0") as archive:
        kept = [name for name in archive.getnames() if name.endswith("record.json")]
    assert len(kept) == 3
    assert all(path.stat().st_size <= 16 * 2**20 for path in results.iterdir())
