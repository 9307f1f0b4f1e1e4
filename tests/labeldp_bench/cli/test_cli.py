"""The command line: one run gives one record, whatever happens outside."""

import csv
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.cli.launch import LAUNCHERS, Job, launch
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.records.collect import find_done
from labeldp_bench.records.record import SCHEMA_VERSION, checksum, read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.support.process import comes_from_ctrl_c
from tests.conftest import TINY_CIRCLE
from tests.images import write_tiny
from tests.shell import NPZ, quick, records_under, untimed

FRACTIONS = ("accuracy", "per_class_mean", "released_agreement", "accuracy_sem", "bayes_accuracy")
TEXTS = "task dataset mechanism model learner budget trust selection pretrain precision device"
CONTRACT = dict.fromkeys(f"{TEXTS} torch_version config_hash".split(), str)
CONTRACT |= dict.fromkeys((*FRACTIONS, "eps", "eps_spent", "delta", "wall_seconds"), float)
CONTRACT |= dict.fromkeys(("schema_version", "seed", "n_train", "n_test"), int)
CONTRACT |= dict.fromkeys(("epochs", "images_per_second"), type(None))
CONTRACT |= {"per_class_accuracy": list, "private": bool, "config": dict}
CONTRACT |= {"git_commit": (str, type(None))}


def test_a_command_is_one_cell_and_one_record(command, tmp_path):
    # The contract's fields would be missing, of another type, or in percent.
    outcome = command("dataset.trials=10")  # of a hundred
    assert outcome.returncode == 0, outcome.stderr
    [path] = (tmp_path / "results" / "runs").rglob("record.json")
    assert str(path.relative_to(tmp_path)) in outcome.stdout
    assert not list(tmp_path.rglob("history.csv"))
    record = json.loads(path.read_text())
    wrong = [key for key, kind in CONTRACT.items() if not isinstance(record.get(key, ...), kind)]
    assert not wrong
    assert all(0 <= record[key] <= 1 + 1e-12 for key in FRACTIONS)
    assert all(0 <= accuracy <= 1 for accuracy in record["per_class_accuracy"])
    assert len(record["per_class_accuracy"]) == record["config"]["dataset"]["num_classes"] == 40
    names = [record[key] for key in ("task", "dataset", "mechanism", "model")]
    assert names == ["classification", "circle", "rappor", "knn"]
    assert record["eps"] == record["eps_spent"] == 1.0
    assert record["accuracy"] == pytest.approx(0.864, abs=0.006)
    assert not re.search(r'"/|out_dir|data_dir', path.read_text())
    assert f"{100 * record['accuracy']:.2f} %" in outcome.stdout


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Two runs of one command in different folders, and a third in the second folder."""
    folder = tmp_path_factory.mktemp("networks")
    write_tiny(folder)
    line = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "data_dir=.", "eps=3"]
    line += ["trainer.epochs=3", "trainer.batch_size=64", "device=cpu"]
    outcomes = [quick([*line, f"out_dir={name}"], folder) for name in ("a", "b", "b")]
    return folder, outcomes


def test_network_run_writes_history_and_record(networks):
    # The contract's history and the fields of networks would be missing.
    folder, outcomes = networks
    assert [outcome.returncode for outcome in outcomes] == [0, 0, 0], outcomes
    [path] = records_under(folder / "a")
    record = json.loads(path.read_text())
    with (path.parent / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "loss", "released_hits", "test_accuracy", "lr", "seconds"]
    assert [int(row["epoch"]) for row in rows] == [1, 2, 3]
    assert all(0 <= float(row["released_hits"]) <= 1 for row in rows)
    assert record["accuracy"] == pytest.approx(float(rows[-1]["test_accuracy"]))
    assert len(record["per_class_accuracy"]) == 3
    assert record["per_class_mean"] == pytest.approx(np.mean(record["per_class_accuracy"]))
    assert record["epochs"] == 3
    assert record["images_per_second"] > 0
    assert (record["selection"], record["dataset"]) == ("last", "tiny")
    assert record["precision"] in ("float32", "bf16")
    assert (record["n_train"], record["n_test"]) == (240, 60)
    assert "accuracy_sem" not in record
    assert not (path.parent / "error.txt").exists()


def test_same_command_gives_the_same_numbers_and_is_not_trained_again(networks):
    # Nobody could reproduce a record; or it would cost hours twice, and be replaced.
    folder, (first, second, again) = networks
    records, histories = [], []
    for path in (path for name in ("a", "b") for path in records_under(folder / name)):
        records.append(untimed(path))
        rows = (path.parent / "history.csv").read_text().splitlines()
        histories.append([row.rsplit(",", 1)[0] for row in rows])
    assert records[0] == records[1] and histories[0] == histories[1]
    assert "epoch" in second.stdout and "done already" not in first.stdout + second.stdout
    assert "done already" in again.stdout and "  epoch" not in again.stdout
    assert again.stdout.splitlines()[-1] == second.stdout.splitlines()[-1]


def test_values_of_a_sweep_are_tried_on_its_cells_alone(tmp_path, tiny_images):
    # An experiment on images could not be made small: the base config's circle has no such key.
    line = ["-m", *NPZ, "mechanism=rr", "model=linear", "dataset.limit_train=20"]
    sizes = {"dataset.limit_train=20", "dataset.limit_test=10", "trainer.epochs=1"}
    outcome = quick([*line, *sorted(sizes)], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    [path] = records_under(tmp_path)
    assert json.loads(path.read_text())["n_train"] == 20


def test_a_changed_file_of_the_same_name_is_not_taken_for_done(tmp_path, tiny_images):
    # A user who mends their images would be shown the old accuracy as that of the new file.
    line = [*NPZ, "mechanism=rr", "model=linear", "trainer.epochs=1"]
    assert quick(line, tmp_path).returncode == 0
    again = quick(line, tmp_path)
    assert again.returncode == 0 and "done already" in again.stdout
    with np.load(tiny_images / "tiny.npz") as archive:
        arrays = dict(archive)
    np.savez(tiny_images / "tiny.npz", **arrays | {"y_test": (arrays["y_test"] + 1) % 3})
    for changed in (line, ["-m", *line]):
        outcome = quick(changed, tmp_path)
        assert outcome.returncode == 2 and "accuracy" not in outcome.stdout
        assert re.search(r"error: \S+tiny\.npz .*another name", outcome.stderr)
    (tiny_images / "tiny.npz").unlink()  # nothing to compare with
    assert "done already" in quick(line, tmp_path).stdout


def test_another_table_of_the_same_name_is_not_taken_for_done(tmp_path):
    # The accuracy of one survey would be shown as that of another, whose labels may be noise.
    files = [tmp_path / folder / "survey.csv" for folder in "ab"]
    rows = [f"{number + 0.5},{'no' if number < 40 else 'yes'}" for number in range(80)]
    shuffled = [f"{number + 0.5},{'no' if number % 3 else 'yes'}" for number in range(80)]
    for file, lines in zip(files, (rows, shuffled), strict=True):
        file.parent.mkdir()
        file.write_text("\n".join(["x,y", *lines]))
    line = ["dataset=table", "dataset.label=y", "dataset.classes=[no,yes]", "mechanism=rr"]
    own = [f"dataset.file={file}" for file in files]
    for seed in (0, 1):  # the split depends on it, and so does the hash
        assert quick([*line, own[0], f"seed={seed}"], tmp_path).returncode == 0
    assert "2 done" in quick(["-m", *line, own[0], "seed=0,1"], tmp_path).stdout
    both = f"dataset.file={files[0]},{files[1]}"
    for other in ([*line, own[1]], ["-m", *line, own[1], "seed=2,1"], ["-m", *line, both]):
        outcome = quick(other, tmp_path)
        assert outcome.returncode == 2 and "accuracy" not in outcome.stdout
        assert "b/survey.csv" in outcome.stderr and "dataset.name=survey" in outcome.stderr
    named = quick([*line, own[1], "dataset.name=survey_2"], tmp_path)
    assert named.returncode == 0 and "done already" not in named.stdout
    missing = quick([*line, "dataset.file=c/survey.csv"], tmp_path)
    assert missing.returncode == 2 and "c/survey.csv" in missing.stderr


def test_stored_results_say_which_data_they_are_of(tmp_path, tiny_images):
    # Whoever broke their own file would be shown a table of good numbers as if they were its.
    line = ["experiment=mechanisms/graphs", "dataset=mnist", "eps=1", "seed=0", "data_dir=data"]
    nothing = quick(line, tmp_path)
    assert nothing.returncode == 0 and "1 stored in results/records.csv" in nothing.stdout
    (tiny_images / "tiny.npz").rename(tiny_images / "mnist.npz")
    other = quick(line, tmp_path)
    assert other.returncode == 0
    assert re.search(
        r"data/mnist\.npz has other images .* now, 7d41589df60d57b3 then", other.stdout
    )


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
    with pytest.raises(InputError, match=rf"version 2.* {SCHEMA_VERSION} .*install"):
        read_record(tmp_path)


def test_a_folder_under_another_runs_name_is_not_taken_for_it(done, tmp_path):
    # A copied folder would answer for a config that was never run.
    folder, cell = done
    other = compose_cell([*TINY_CIRCLE, "eps=2"])
    (tmp_path / other.folder).mkdir(parents=True)
    copied = (folder / cell.folder / "record.json").read_bytes()
    (tmp_path / other.folder / "record.json").write_bytes(copied)
    with pytest.raises(InputError, match=r"record\.json .*config_hash"):
        find_done([other], tmp_path, committed=False)
    outcome = quick([*TINY_CIRCLE, "eps=2", f"out_dir={tmp_path}"], tmp_path)
    assert outcome.returncode == 2 and "config_hash" in outcome.stderr
    assert find_done([cell], folder, committed=False).keys() == {cell.config_hash}


def test_names_with_spaces_and_equals_signs(tmp_path):
    # A folder on somebody's desktop would be cut at the space.
    line = [*TINY_CIRCLE, "mechanism=rr", "out_dir='my runs/a=b'"]
    for each in (line, ["-m", *line]):
        assert quick(each, tmp_path).returncode == 0
    [path] = records_under(tmp_path)
    assert path.is_relative_to(tmp_path / "my runs" / "a=b")


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
