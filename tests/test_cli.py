"""The command line: one run gives one record; bad input gives one line and nothing else."""

import csv
import json
import re

import numpy as np
import pytest

from labeldp_bench.cli import left_to_cells
from labeldp_bench.interrupt import comes_from_ctrl_c
from tests.conftest import TINY_CIRCLE
from tests.shell import quick, records_under

CONTRACT = {
    "schema_version": int, "task": str, "dataset": str, "mechanism": str, "model": str,
    "learner": str, "eps": float, "seed": int, "budget": str, "accuracy": float,
    "per_class_accuracy": list, "per_class_mean": float, "eps_spent": float, "delta": float,
    "trust": str, "private": bool, "released_agreement": float, "selection": str, "pretrain": str,
    "precision": str, "epochs": type(None), "n_train": int, "n_test": int, "wall_seconds": float,
    "images_per_second": type(None), "device": str, "torch_version": str,
    "git_commit": (str, type(None)), "config": dict, "config_hash": str,
    "accuracy_sem": float, "bayes_accuracy": float,
}  # fmt: skip
FRACTIONS = ("accuracy", "per_class_mean", "released_agreement", "accuracy_sem", "bayes_accuracy")
TIMED = ("wall_seconds", "images_per_second")


def test_bare_command_is_one_cell_and_one_record(command, tmp_path):
    # The contract's fields would be missing, of another type, or in percent.
    outcome = command()
    assert outcome.returncode == 0, outcome.stderr
    [path] = records_under(tmp_path)
    assert path.is_relative_to(tmp_path / "results" / "runs")
    assert str(path.relative_to(tmp_path)) in outcome.stdout
    assert not list(tmp_path.rglob("history.csv"))
    record = json.loads(path.read_text())
    wrong = {key: record.get(key) for key, kind in CONTRACT.items()
             if not isinstance(record.get(key, ...), kind)}  # fmt: skip
    assert not wrong
    assert all(0 <= record[key] <= 1 + 1e-12 for key in FRACTIONS)
    assert all(0 <= accuracy <= 1 for accuracy in record["per_class_accuracy"])
    assert len(record["per_class_accuracy"]) == record["config"]["dataset"]["num_classes"] == 40
    assert (record["task"], record["dataset"], record["mechanism"], record["model"]) == (
        "classification", "circle", "rappor", "knn")  # fmt: skip
    assert record["eps"] == record["eps_spent"] == 1.0
    assert record["accuracy"] == pytest.approx(0.864, abs=0.006)
    assert not re.search(r'"/|out_dir|data_dir', path.read_text())
    assert f"{100 * record['accuracy']:.2f} %" in outcome.stdout


def test_no_privacy_is_recorded_as_text_and_as_not_private(tmp_path):
    # JSON has no infinity: a reader in another language would fail on the file.
    assert quick([*TINY_CIRCLE, "mechanism=none"], tmp_path).returncode == 0
    [path] = records_under(tmp_path)
    record = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert record["eps"] == record["eps_spent"] == "inf"
    assert record["private"] is False
    assert record["trust"] == "none"


def test_help_shows_how_to_call_and_the_keys_of_what_is_named(tmp_path):
    # A stranger would see Hydra's words, and the keys of another learner.
    outcome = quick(["--help", "mechanism=lp_2st"], tmp_path)
    assert outcome.returncode == 0
    assert "python -m labeldp_bench -m mechanism=" in outcome.stdout
    assert "fractions:" in outcome.stdout and "Hydra" not in outcome.stdout
    assert list(tmp_path.iterdir()) == []


NPZ = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "data_dir=data"]
BAD = {
    "eps=0": r"eps must be a number > 0, got 0\.0 \(use eps=inf",
    "eps=-1": r"eps must be a number > 0, got -1\.0",
    "eps=nan": r"eps must be a number > 0, got nan",
    "eps=1000": r"eps must be at most 700 or inf, got 1000\.0",
    "eps=abc": r"eps must be a number, got 'abc'",
    "eps=null": r"eps must have a value, got null",
    "mechanism=none eps=0": r"eps must be a number > 0, got 0\.0",
    "mechanism.eps=[1,2]": r"eps must be a number > 0, got \[1, 2\]",
    "seed=1.5": r"seed must be an integer, got '1\.5'",
    "seed=-1": r"seed must be in \[0, \d+\], got -1",
    "budget=5": r"budget must be the name of a choice, got 5",
    "budget=fast": r"budget must be one of paper, quick, smoke; got 'fast'",
    "budget.rules=[]": r"budget\.rules cannot be given: a budget is chosen by its name",
    "table.kind=x": r"table\.kind is what an experiment says of itself, it cannot be given",
    "figure=1": r"figure is what an experiment says of itself, it cannot be given",
    "device=gpu": r"device must be auto, cpu, cuda or cuda:<n>, got 'gpu'",
    "device=cuda:99": r"device=cuda:99: torch sees \d+ GPUs here \(use device=cpu\)",
    "mechanism=rapor": r"mechanism must be one of .*rappor.*; got 'rapor' \(did you mean rappor",
    "mechanism=null": r"mechanism must be the name of a choice, got null",
    "dataset=imagenet": r"dataset must be one of .*circle.*; got 'imagenet'",
    "experiment=foo": r"experiment must be one of .*quickstart.*; got 'foo'",
    "epsilon=1": r"unknown key epsilon; keys: .*eps.* \(did you mean eps\?\)",
    "+epsilon=1": r"unknown key epsilon \(did you mean eps\?\)",
    "dataset.sigmaa=1": r"unknown key dataset\.sigmaa; keys of dataset: .*did you mean sigma\?",
    "+model.metric=l1": r"model has no key 'metric'",
    "~dataset.sigma": r"dataset: 'sigma' must be given",
    "dataset.sigma=1/K": r"dataset\.sigma must be a number > 0 or the text 2/K, got '1/K'",
    "dataset.trials=0": r"dataset\.trials must be >= 1, got 0",
    "model.k=0": r"model\.k must be >= 1, got 0",
    "dataset.n_train=100": r"model\.k must be <= the number of training examples, got 200 for 100",
    "learner=local_averages learner.tuning=fixed model.k=10001": r"model\.k .* got 10001 for 10000",
    "model._target_=nowhere.Model": "_target_ cannot be given",
    "learner.loss=hinge": r"learner\.loss must be one of plain, .*; got 'hinge'",
    "learner.loss=plain": r"learner\.loss=plain needs one label per example, but Rappor releases",
    "model=cnn": r"a network needs images of shape \(N, H, W, C\), got \(10000, 2\)",
    "eps=1,2": r"eps=1,2 has several values, which is a sweep \(add -m\)",
    "foo": r"cannot read 'foo' \(write key=value\)",
    "=5": r"cannot read '=5' \(write key=value\)",
    "--eps=1": r"unknown option '--eps=1' \(overrides are key=value",
    "seed=1 -m eps=1,2": r"options such as -m come before all overrides, got 'eps=1,2'",
    "cells=[]": r"cells are a sweep \(add -m\)",
    "job=3": r"job is filled by the sweep",
    "out_dir=a_file": r"out_dir must be a folder one can write to, got 'a_file' \(file exists\)",
    "out_dir=a_file/x": r"out_dir must be a folder one can write to, got 'a_file/x'",
    "out_dir=/proc/x": r"out_dir must be a folder one can write to, got '/proc/x'",
    "data_dir=": r"data_dir must be a folder, got ''",
    "out_dir=": r"out_dir must be a folder one can write to, got ''",
    "dataset=npz": r"dataset\.name must be given",
    "dataset=npz dataset.name=x": r"dataset\.num_classes must be given",
    "NPZ trainer.epochs=0": r"error: trainer\.epochs must be >= 1, got 0",
    "NPZ mechanism=ple learner.client.epochs=0": r"error: learner\.client\.epochs must be >= 1",
    "NPZ pretrain=cifar100 model=cnn pretrain.trainer.epochs=0": r"error: pretrain\.trainer\.ep",
    "NPZ trainer.selection=best": r"trainer\.selection must be one of last, .*; got 'best'",
    "NPZ dataset.name=../tiny": r"dataset\.name must be a file name without folder",
    "NPZ dataset.name=other": r"no file data/other\.npz, .*two ways out",
    "NPZ dataset.name=damaged": r"damaged\.npz is not a zip archive, or is cut short",
    "NPZ dataset.limit_train=241": r"dataset\.limit_train must be at most 240, .*got 241",
    "NPZ dataset.num_classes=4": r"num_classes=4 does not fit .*dataset\.num_classes=3",
    "-m eps=0,1": r"eps must be a number > 0, got 0\.0",
    "-m seed=0,x": r"seed must be an integer, got 'x'",
    "-m trainer.epochs=1,2": r"trainer\.epochs has no effect: this model is not trained",
    "trainer.epochs=1": r"trainer\.epochs has no effect: this model is not trained",
    "experiment=quickstart sweep=circle": r"an experiment names its cells itself",
    "experiment=mechanisms/mnist dataset.n_train=9": r"unknown key dataset\.n_train; keys",
    "model=cubes": r"model\.box=\[0,1\] leaves \d+ % of the points outside",
    "mechanism=laplace": r"Laplace is made for regression, and this data set has classes",
    "mechanism=optimal dataset.num_classes=5 eps=1e-7": r"optimal needs eps >= 1e-06, got 1e-07",
    "mechanism=unary mechanism.keep=1.5": r"keep must be a number > 0 and < 1, got 1\.5",
    "NPZ trainer.optimizer.lr=-1": r"error: trainer\.optimizer: invalid learning rate: -1",
    "NPZ learner=ple": r"learner=ple is for mechanism=ple",
    "-m mechanism=rr,foo": r"mechanism must be one of .*; got 'foo'",
    "-m device=gpu": r"device must be auto, cpu, cuda or cuda:<n>, got 'gpu'",
    "-m out_dir=a,b": r"out_dir takes one value in a sweep, got a, b",
    "-m out_dir=a_file": r"out_dir must be a folder one can write to, got 'a_file'",
    "-m sweep=circle,mnist": r"sweep takes one value in a sweep, got circle, mnist",
    "-m eps=interval(1,2)": r"eps needs values to sweep over, got eps=interval\(1,2\)",
    "-m eps=glob(*)": r"eps: nothing matches",
    "-m cells=3": r"cells must be a list of blocks, got int",
}  # fmt: skip


@pytest.mark.parametrize("line", BAD)
def test_bad_command_is_one_line_and_leaves_no_result(line, tmp_path, tiny_images):
    # A user would read a traceback, or find a folder that looks like a finished run.
    (tmp_path / "a_file").write_text("")
    whole = (tiny_images / "tiny.npz").read_bytes()
    (tiny_images / "damaged.npz").write_bytes(whole[: len(whole) // 2])
    before = set(tmp_path.rglob("*"))
    outcome = quick([*NPZ, *line.split()[1:]] if "NPZ" in line else line.split(), tmp_path)
    assert outcome.returncode not in (0, None)
    assert len(outcome.lines) == 1, outcome.lines
    assert outcome.lines[0].startswith("error: ")
    assert re.search(BAD[line], outcome.lines[0])
    left = {path.name for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert left <= {"error.txt", ".lock"}


def test_traceback_on_request(command, monkeypatch):
    # A developer could not find where an error comes from.
    assert "Traceback" not in command("eps=abc").stderr
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    assert "Traceback" in command("eps=abc").stderr


def test_missing_official_data_offline_names_the_ways_out(tmp_path):
    # A user without a network would not know what to do.
    nowhere = {key: "http://127.0.0.1:9" for key in ("http_proxy", "https_proxy")}
    outcome = quick(["dataset=mnist", "data_dir=nowhere"], tmp_path, nowhere)
    assert outcome.returncode == 1
    assert "Traceback" not in outcome.stdout + outcome.stderr
    assert re.search(
        r"no file nowhere/mnist\.npz, .*three ways out: run `make data`", outcome.stdout
    )
    assert not records_under(tmp_path)
    assert not list(tmp_path.rglob("*.npz"))


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Two runs of one command in different folders, and a third in the second folder."""
    folder = tmp_path_factory.mktemp("networks")
    generator = np.random.default_rng(0)
    arrays = {}
    for part, size in (("train", 200), ("test", 50)):
        labels = generator.integers(0, 3, size)
        pixels = generator.integers(0, 60, (size, 8, 8)) + 60 * labels[:, None, None]
        arrays |= {f"x_{part}": pixels.astype(np.uint8), f"y_{part}": labels}
    np.savez(folder / "tiny.npz", **arrays)
    line = [
        "dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "data_dir=.", "eps=3",
        "trainer.epochs=3", "trainer.batch_size=64", "device=cpu",
    ]  # fmt: skip
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
    assert (record["n_train"], record["n_test"]) == (200, 50)
    assert "accuracy_sem" not in record
    assert not (path.parent / "error.txt").exists()


def test_same_command_gives_the_same_numbers_bit_for_bit(networks):
    # Nobody could reproduce a record.
    folder, _ = networks
    [one], [two] = (records_under(folder / name) for name in ("a", "b"))
    first, second = (json.loads(path.read_text()) for path in (one, two))
    assert {k: v for k, v in first.items() if k not in TIMED} == {
        k: v for k, v in second.items() if k not in TIMED
    }
    histories = [(path.parent / "history.csv").read_text().splitlines() for path in (one, two)]
    without_time = [[row.rsplit(",", 1)[0] for row in history] for history in histories]
    assert without_time[0] == without_time[1]


def test_repeated_run_is_not_trained_again(networks):
    # The same command would cost hours twice, and the record would be replaced.
    _, (first, second, again) = networks
    assert "epoch" in second.stdout
    assert "done before" not in first.stdout + second.stdout
    assert "done before" in again.stdout
    assert "  epoch" not in again.stdout
    assert again.stdout.splitlines()[-1] == second.stdout.splitlines()[-1]


def test_damaged_record_is_named(tmp_path):
    # A file cut by a full disk would end every later command in a traceback.
    assert quick(TINY_CIRCLE, tmp_path).returncode == 0
    [path] = records_under(tmp_path)
    whole = path.read_text()
    for damaged in (whole[:100], "{}", "[]", whole.replace('"eps": 1.0', '"eps": "abc"')):
        assert damaged != whole
        path.write_text(damaged)
        for line in (TINY_CIRCLE, ["-m", *TINY_CIRCLE]):
            outcome = quick(line, tmp_path)
            assert outcome.returncode == 2
            assert "record.json is damaged" in outcome.lines[-1]
            assert "Traceback" not in outcome.stderr and "overrides" not in outcome.stderr


def test_values_of_a_sweep_are_tried_on_its_cells_alone(tmp_path, tiny_images):
    # An experiment on images could not be made small: the base config's circle has no such key.
    line = ["-m", "dataset=npz", *NPZ[1:], "mechanism=rr", "model=linear", "dataset.limit_train=20"]
    sizes = {"dataset.limit_train=20", "dataset.limit_test=10", "trainer.epochs=1"}
    outcome = quick([*line, *sorted(sizes)], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    [path] = records_under(tmp_path)
    assert json.loads(path.read_text())["n_train"] == 20
    asked = ["experiment=mechanisms/mnist", "dataset.limit_train=20", "eps=0.3,1", "seed=0"]
    passed = left_to_cells([*asked, "learner.fractions=[0.5,0.5]", "hydra.verbose=true"])
    assert passed == [asked[0], "dataset.limit_train=choice(20)", *asked[2:],
                      "learner.fractions=choice([0.5,0.5])", "hydra.verbose=true"]  # fmt: skip
    assert left_to_cells(asked[1:]) == asked[1:]


def test_a_changed_file_of_the_same_name_is_not_taken_for_done(tmp_path, tiny_images):
    # A user who mends their images would be shown the old accuracy as that of the new file.
    line = [*NPZ, "mechanism=rr", "model=linear", "trainer.epochs=1"]
    assert quick(line, tmp_path).returncode == 0
    again = quick(line, tmp_path)
    assert again.returncode == 0 and "done before" in again.stdout
    with np.load(tiny_images / "tiny.npz") as archive:
        arrays = dict(archive)
    np.savez(tiny_images / "tiny.npz", **arrays | {"y_test": (arrays["y_test"] + 1) % 3})
    for changed in (line, ["-m", *line]):
        outcome = quick(changed, tmp_path)
        assert outcome.returncode == 2
        assert re.search(r"error: tiny\.npz has other images .* another name, or", outcome.stderr)
        assert "accuracy" not in outcome.stdout
    (tiny_images / "tiny.npz").unlink()  # nothing to compare with
    assert "done before" in quick(line, tmp_path).stdout


def test_an_error_while_cleaning_up_after_ctrl_c_counts_as_ctrl_c():
    # OmegaConf, interrupted at a bad moment, raises an AttributeError: a sweep would end as failed.
    try:
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("half-made")
    except AttributeError as error:
        assert comes_from_ctrl_c(error)
    assert not comes_from_ctrl_c(ValueError("alone"))
