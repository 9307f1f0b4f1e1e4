"""The command line: one run gives one record, and the same command the same record."""

import csv
import json
import re
import sys

import numpy as np
import pytest
import yaml

from labeldp_bench.__main__ import main
from labeldp_bench.cli.arguments import check_arguments, is_sweep, split_sweep
from labeldp_bench.support.process import comes_from_ctrl_c
from tests.conftest import TINY_CIRCLE
from tests.shell import NPZ, quick, records_under

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
TIMED = ("wall_seconds", "images_per_second", "checksum")


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


@pytest.mark.parametrize("budget", ["smoke", "paper"])
def test_a_printed_config_says_that_a_budget_changes_it(budget, tmp_path):
    # 100 trials stood there, and two ran.
    said = quick([f"budget={budget}", "--cfg", "job"], tmp_path).stdout
    assert yaml.safe_load(said)["dataset"]["trials"] == 100
    comment = "# budget=smoke changes some of these values when the run starts (--help budget=smoke"
    assert (comment in said.splitlines()[-1]) == (budget == "smoke")


def test_no_privacy_is_recorded_as_text_and_as_not_private(tmp_path):
    # JSON has no infinity: a reader in another language would fail on the file.
    assert quick([*TINY_CIRCLE, "mechanism=none"], tmp_path).returncode == 0
    [path] = records_under(tmp_path)
    record = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert record["eps"] == record["eps_spent"] == "inf"
    assert record["private"] is False
    assert record["trust"] == "none"


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
    assert "done already" not in first.stdout + second.stdout
    assert "done already" in again.stdout
    assert "  epoch" not in again.stdout
    assert again.stdout.splitlines()[-1] == second.stdout.splitlines()[-1]


def test_damaged_record_is_named(tmp_path):
    # A file cut by a full disk would end every later command in a traceback.
    assert quick(TINY_CIRCLE, tmp_path).returncode == 0
    [path] = records_under(tmp_path)
    whole = path.read_text()
    edited = re.sub(r'("accuracy": 0\.)\d+', r"\g<1>99", whole)
    for damaged, how in (
        (whole[:100], "is damaged"),
        ("[]", "is damaged"),
        (edited, "was changed"),
    ):
        assert damaged != whole
        path.write_text(damaged)
        for line in (TINY_CIRCLE, ["-m", *TINY_CIRCLE]):
            outcome = quick(line, tmp_path)
            assert outcome.returncode == 2
            assert f"record.json {how}" in outcome.lines[-1]
            assert "Traceback" not in outcome.stderr and "overrides" not in outcome.stderr


def test_values_of_a_sweep_are_tried_on_its_cells_alone(tmp_path, tiny_images):
    # An experiment on images could not be made small: the base config's circle has no such key.
    line = ["-m", *NPZ, "mechanism=rr", "model=linear", "dataset.limit_train=20"]
    sizes = {"dataset.limit_train=20", "dataset.limit_test=10", "trainer.epochs=1"}
    outcome = quick([*line, *sorted(sizes)], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    [path] = records_under(tmp_path)
    assert json.loads(path.read_text())["n_train"] == 20
    asked = ["experiment=mechanisms/mnist", "dataset.limit_train=20", "eps=0.3,1", "seed=0"]
    options = check_arguments([*asked, "hydra.verbose=true"])
    assert is_sweep(options)
    assert split_sweep(options) == (["hydra.mode=RUN", asked[0], "hydra.verbose=true"], asked[1:])
    assert not is_sweep(check_arguments(asked[1:]))


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
        assert outcome.returncode == 2
        hashes = r"data_sha256 is [0-9a-f]{16} now, [0-9a-f]{16} then"
        assert re.search(rf"error: tiny\.npz has other images .* {hashes}.* another name, or",
                         outcome.stderr)  # fmt: skip
        assert "accuracy" not in outcome.stdout
    np.savez(tiny_images / "tiny.npz", **arrays | {"y_train": (arrays["y_train"] + 1) % 3})
    outcome = quick(line, tmp_path)
    assert outcome.returncode == 0
    assert "tiny.npz was written again since results/runs/tiny" in outcome.stdout
    (tiny_images / "tiny.npz").unlink()  # nothing to compare with
    assert "done already" in quick(line, tmp_path).stdout


def test_stored_results_say_which_data_they_are_of(tmp_path, tiny_images):
    # Whoever broke their own file would be shown a table of good numbers as if they were its.
    line = ["experiment=mechanisms/mnist", "mechanism=none", "seed=0", "data_dir=data"]
    nothing = quick(line, tmp_path)
    assert nothing.returncode == 0 and "1 stored in results/records.csv" in nothing.stdout
    assert (
        "stored results are not checked against the data: there is no mnist.npz" in nothing.stdout
    )
    (tiny_images / "tiny.npz").rename(tiny_images / "mnist.npz")
    other = quick(line, tmp_path)
    assert other.returncode == 2 and "stored" not in other.stdout
    assert re.search(
        r"error: data/mnist\.npz has other images or test labels than the mnist of the stored "
        r"results: its hash, .* is [0-9a-f]{16}, theirs 2fec4d150af52121 ",
        other.stderr,
    )


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


def test_ctrl_c_while_the_program_loads_is_one_line(monkeypatch, capsys):
    # Torch takes seconds to load; whoever notices a typing error would get a page of traceback.
    class Interrupted:
        @staticmethod
        def find_spec(name, *_):
            if name == "labeldp_bench.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "labeldp_bench.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
