"""Faults from outside, and what a user sees; docs/scaling.md says what each costs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.cli.launch import LAUNCHERS, Job, launch, progress
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.collect import find_done
from labeldp_bench.records.record import SCHEMA_VERSION, checksum, read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.support.process import comes_from_ctrl_c
from tests.conftest import TINY_CIRCLE
from tests.shell import NPZ, quick, records_under


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with one finished run, and its cell."""
    folder = tmp_path_factory.mktemp("runs")
    cell = compose_cell(TINY_CIRCLE)
    assert run_cells([cell], Environment(folder, folder, torch.device("cpu"))) == 0
    return folder, cell


def test_a_record_of_a_newer_version_is_not_read(done, tmp_path):
    # Its numbers may mean something else there.
    folder, cell = done
    record = json.loads((folder / cell.folder / "record.json").read_text())
    record["schema_version"] = SCHEMA_VERSION + 1
    record["checksum"] = checksum(record)
    (tmp_path / "record.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=rf"schema version 2, .* up to {SCHEMA_VERSION} \(install"):
        read_record(tmp_path)


def test_a_folder_under_another_runs_name_is_not_taken_for_it(done, tmp_path):
    # A copied folder would answer for a config that was never run.
    folder, cell = done
    other = compose_cell([*TINY_CIRCLE, "eps=2"])
    (tmp_path / other.folder).mkdir(parents=True)
    copied = (folder / cell.folder / "record.json").read_bytes()
    (tmp_path / other.folder / "record.json").write_bytes(copied)
    with pytest.raises(InputError, match=r"record\.json is of another run: its config_hash"):
        find_done([other], tmp_path, committed=False)
    outcome = quick([*TINY_CIRCLE, "eps=2", f"out_dir={tmp_path}"], tmp_path)
    assert outcome.returncode == 2 and "is of another run" in outcome.stderr
    assert find_done([cell], folder, committed=False).keys() == {cell.config_hash}


def test_names_with_spaces_and_equals_signs(tmp_path):
    # A folder on somebody's desktop would be cut at the space.
    line = [*TINY_CIRCLE, "mechanism=rr", "out_dir='my runs/a=b'"]
    for each in (line, ["-m", *line]):
        assert quick(each, tmp_path).returncode == 0
    [path] = records_under(tmp_path)
    assert path.is_relative_to(tmp_path / "my runs" / "a=b")


def test_a_folder_where_a_file_should_be(tmp_path, tiny_images):
    # What cannot be read is said, and nothing is written.
    (tiny_images / "tiny.npz").unlink()
    (tiny_images / "tiny.npz").mkdir()
    outcome = quick([*NPZ, "mechanism=rr"], tmp_path)
    [error] = outcome.stderr.splitlines()
    assert outcome.returncode in (1, 2) and "tiny.npz" in error and "Traceback" not in error
    assert records_under(tmp_path) == []


def test_a_clock_that_was_set_back_costs_an_estimate_only(done, tmp_path, monkeypatch):
    # Daylight saving or a time server would end a sweep, or write a negative duration.
    monkeypatch.setattr("time.time", iter(range(10**9, 0, -3600)).__next__)
    cell = compose_cell([*TINY_CIRCLE, "seed=5"])
    assert run_cells([cell], Environment(tmp_path, tmp_path, torch.device("cpu"))) == 0
    assert read_record(tmp_path / cell.folder)["wall_seconds"] > 0
    assert progress(5, 215, -100.0) == "5 of 215 cells"


def launch_broken(monkeypatch, error):
    """Launches on workers that die, as joblib and submitit say it."""

    def broken(jobs, settings, out_dir):
        raise error

    monkeypatch.setitem(LAUNCHERS, "joblib", broken)
    return launch([Job([], {})], "joblib", {}, Path())


def test_a_worker_that_was_killed_is_one_line(monkeypatch, capsys):
    # The sweep ended in a page of traceback, without the table of what is done.
    error = RuntimeError("Job 15_1 has not produced\n any output" + "-" * 300)
    assert launch_broken(monkeypatch, error) == (0, False)
    [line] = capsys.readouterr().err.splitlines()
    assert "RuntimeError: Job 15_1 has not produced any" in line and len(line) < 300


def test_ctrl_c_in_a_launcher_stays_ctrl_c(monkeypatch):
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        error = OSError("a pipe broke")
        error.__context__ = sys.exc_info()[1]
    with pytest.raises(KeyboardInterrupt) as caught:
        launch_broken(monkeypatch, error)
    assert comes_from_ctrl_c(caught.value)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 kB of its own, and a way to enlarge it."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system of its own needs root, and a system that lets it mount")
    try:
        yield folder, ["mount", "-o", "remount,size=20m", str(folder)]
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_is_really_full_ends_the_sweep_and_the_same_command_finishes(small_disk):
    # Half a record would count as done, or the cells before it would be lost.
    folder, enlarge = small_disk
    line = [
        "-m",
        *TINY_CIRCLE,
        "mechanism=rr",
        "eps=0.5,1,2,3,4,5",
        "seed=0,1,2",
        "out_dir=small/runs",
    ]
    (folder / "other").write_bytes(bytes(225_000))
    outcome = quick(line, folder.parent)
    assert outcome.returncode in (1, 2) and "Traceback" not in outcome.stderr
    assert "no space left on device" in outcome.stderr + outcome.stdout
    before = {path: path.read_bytes() for path in records_under(folder)}
    assert 0 < len(before) < 18
    for path in before:
        read_record(path.parent)
    subprocess.run(enlarge, check=True)
    assert quick(line, folder.parent).returncode == 0
    assert len(records_under(folder)) == 18
    assert all(path.read_bytes() == content for path, content in before.items())
