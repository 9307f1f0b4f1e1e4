"""Status, hours and `minutes=`: what is done, how long the rest takes, which cells still start."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment, scaled
from labeldp_bench.records.record import KEYS, write_record
from labeldp_bench.reports import durations, status
from labeldp_bench.reports.durations import (
    FROM_CELL,
    FROM_MODEL,
    FROM_OTHERS,
    Durations,
    examples_of,
    finished_in_time,
    hardware_name,
    say_forecast,
    too_long,
)
from labeldp_bench.runs.environment import Environment
from labeldp_bench.support.device import describe_device
from labeldp_bench.support.hardware import cpu_without_torch

HERE, ELSEWHERE = "cpu (Some CPU, 1 threads)", "Some GPU"
CPU = torch.device("cpu")
TUNED = "tuning=held_out_releases"


def record(cell, seconds, device=HERE, **values):
    return {"identity": cell.identity, "device": device, "wall_seconds": seconds} | values


def test_done_failed_and_missing(tmp_path):
    # A failed cell would count as done, or a committed one be trained again.
    name = "vector_approximation/table1b"
    cells = read_experiment(name).cells()
    for cell, file in ((cells[1], "record.json"), (cells[2], "error.txt")):
        (tmp_path / cell.folder).mkdir(parents=True)
        (tmp_path / cell.folder / file).write_text("{}")
    nothing = Durations(HERE, {})
    found = status.status_of(name, tmp_path, {cells[0].config_hash: {}}, nothing)
    assert (found.cells, found.done, found.failed, found.missing) == (165, 2, 1, 163)
    assert f"python -m labeldp_bench experiment={name} |" in status.table([found])
    quick = status.status_of(name, tmp_path, {}, nothing, "quick")
    assert (quick.cells, quick.done) == (99, 0)
    assert f"experiment={name} budget=quick |" in status.table([quick], "quick")


def test_the_median_of_the_nearest_kind_is_taken(tmp_path, monkeypatch):
    # Hours of another machine, network or recipe would be promised.
    monkeypatch.setattr(durations, "BENCHMARKS", tmp_path)
    cell = compose_cell(["dataset=mnist", "mechanism=rr", "seed=3"])
    alike = compose_cell(["dataset=mnist", "mechanism=rr", "eps=0.3", "trainer.epochs=10"])
    model = compose_cell(["dataset=mnist", "mechanism=rappor", "dataset.limit_train=30000"])
    stages = compose_cell(["dataset=mnist", "mechanism=lp_2st"])

    def seconds(records, of=cell, here=HERE):
        named = dict(enumerate(records))
        return Durations(here, named).seconds(of)

    near = [record(alike, 60.0 * n) for n in (1, 2, 9)]
    assert seconds([*near, record(model, 5.0)]) == (pytest.approx(60.0), FROM_CELL)
    assert seconds(near, here=HERE.replace("1 threads", "2 threads"))[1] == FROM_CELL
    # Half the examples in five seconds; of another learner only where nothing else is known.
    others = [record(model, 5.0), record(stages, 90.0)]
    assert seconds(others) == (pytest.approx(10.0), FROM_MODEL)
    assert seconds(others[1:]) == (pytest.approx(90.0), FROM_MODEL)
    # Of hardware that nobody has measured: by other CPUs, not by GPUs.
    away = [record(cell, 1.0, ELSEWHERE), record(cell, 33.0, "cpu (Another, 4 threads)")]
    assert seconds(away) == (pytest.approx(33.0), FROM_OTHERS)
    assert seconds([*away, record(model, 5.0)]) == (pytest.approx(10.0), FROM_MODEL)
    assert math.isnan(seconds(away[:1])[0])
    measured = f'model,images_per_second,device\ncnn,3000,"{HERE}"\n'
    (tmp_path / "training_cpu.csv").write_text(measured)
    assert seconds([]) == (pytest.approx(100.0), FROM_MODEL)
    assert math.isnan(seconds([], compose_cell(["mechanism=rr"]))[0])


def test_trials_and_data_of_unknown_size_are_counted():
    # A thousand trials would take as long as a hundred; a table as long as another one.
    trials = {0: record(compose_cell(["mechanism=rr"]), 20.0)}
    thousand = compose_cell(["mechanism=rr", "dataset.trials=1000"])
    assert Durations(HERE, trials).seconds(thousand)[0] == pytest.approx(200.0)
    tables = {0: record(compose_cell(["dataset=affairs", "mechanism=rr"]), 2.0)}
    other = compose_cell(["dataset=affairs", "mechanism=none"])
    assert Durations(HERE, tables).seconds(other) == (2.0, FROM_MODEL)
    assert math.isnan(Durations(HERE, tables).seconds(compose_cell(["dataset=chile"]))[0])


def test_a_long_run_says_how_long_and_what_fits_in_an_hour(tmp_path, capsys, monkeypatch):
    # It would be silent for minutes, and then take days.
    overrides = ["mechanism=rappor", "dataset=cifar100", "eps=2"]
    cell, here = compose_cell(overrides), cpu_without_torch("cpu")
    records = {"a": record(cell, 108_000.0, here)}
    small = compose_cell(["mechanism=rr", "dataset=cifar100", "model=resnet18_w16"])
    records["b"] = record(small, 3600.0, here)
    encoded = compose_cell(scaled([*overrides, "budget=features"]))
    records["c"] = record(encoded, 40.0, here)
    monkeypatch.setattr("labeldp_bench.reports.durations.read_lengths", lambda models: records)
    say_forecast(cell, tmp_path, here, overrides)
    said = capsys.readouterr().out
    assert "30.0 h" in said and "trainer.epochs=1 (60 min)" in said and "budget=quick" in said
    assert "budget=features (40 s, and minutes more" in said  # to encode the images
    folder = tmp_path / cell.folder
    folder.mkdir(parents=True)
    (folder / "checkpoint.pt").touch()
    (folder / "history.csv").write_text("epoch\n" + "1\n" * 25)
    say_forecast(cell, tmp_path, here, overrides)
    assert "5.0 h" in capsys.readouterr().out  # what is left
    say_forecast(compose_cell(["mechanism=rr"]), tmp_path, here, ["mechanism=rr"])
    say_forecast(compose_cell([*overrides, "trainer.epochs=many"]), tmp_path, here, overrides)
    (folder / "record.json").touch()
    say_forecast(cell, tmp_path, here, overrides)
    assert capsys.readouterr().out == ""


def test_a_forecast_waits_for_no_torch():
    # A person would wait for seconds, on a busy machine for a minute, to hear of days.
    code = """
import sys
from pathlib import Path
from labeldp_bench.reports.durations import say_forecast
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.support.hardware import cpu_without_torch
given = ["mechanism=rappor", "dataset=cifar100"]
say_forecast(compose_cell(given), Path("none"), cpu_without_torch("cpu"), given)
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "budget=quick" in done.stdout and done.stdout.endswith("False\n"), done.stderr


def test_the_hardware_is_the_same_before_and_after_torch():
    # A forecast would be that of another machine.
    assert hardware_name(cpu_without_torch("cpu")) == hardware_name(describe_device(CPU))
    assert cpu_without_torch("cuda:0") is None


@pytest.mark.parametrize("name", ["blockrr/table3", "ple/figure2", "mechanisms/photographs_card"])
def test_what_yaml_states_is_the_identity(name):
    # A forecast would find no record of the same cell.
    for cell in read_experiment(name).cells()[::20]:
        assert replace(cell, as_stated=True).identity == cell.identity


@pytest.mark.parametrize(
    ("overrides", "examples"),
    [
        (["dataset=cifar10_1"], 33_500),
        (["dataset=cifar100_coarse"], 50_000),
        (["dataset=mnist", "dataset.limit_train=600"], 600),
        (["dataset=circle"], 10_000),
        (["dataset=affairs", "mechanism=rr"], math.nan),
    ],
)
def test_examples_of_a_data_set(overrides, examples):
    found = examples_of(compose_cell(overrides).identity)
    assert found == pytest.approx(examples, nan_ok=True)


def cell_of(seed, *more):
    """A network cell of five epochs on data that no committed record has."""
    data = ["dataset=npz", "dataset.name=unheard_of", "dataset.num_classes=3", "mechanism=rr"]
    return compose_cell([*data, "model=cnn", "trainer.epochs=5", f"seed={seed}", *more])


def minute(folder, cell):
    """Writes a record of a minute on this hardware."""
    (folder / cell.folder).mkdir(parents=True)
    own = record(cell, 60.0, describe_device(CPU), config_hash=cell.config_hash)
    write_record(folder / cell.folder, dict.fromkeys(KEYS, 1.0) | own)
    return Environment(folder, folder, CPU)


def test_cells_are_started_as_long_as_they_fit_and_the_others_are_named(tmp_path, capsys):
    # A batch system would kill the last run, or hours would be left unused.
    cells = [cell_of(seed) for seed in (9, 0, 1, 2)]
    environment = minute(tmp_path, cells[0])
    assert finished_in_time(cells, environment, 130) == cells[1:3]
    (line,) = capsys.readouterr().out.splitlines()
    assert cells[3].title in line and "60 s" in line and "10 s" in line
    assert too_long(cells, environment, 59).keys() == {cell.config_hash for cell in cells}
    assert too_long(cells, environment, 61) == {}
    assert finished_in_time(cells, environment, -1) == []
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_cell_that_goes_on_needs_its_last_epochs_alone(tmp_path):
    # A run of a day that lacks one epoch would never be finished by jobs of an hour.
    cell, environment = cell_of(0), minute(tmp_path, cell_of(9))
    folder = tmp_path / cell.folder
    folder.mkdir(parents=True)
    (folder / "history.csv").write_text("epoch\n1\n2\n3\n4\n")
    assert finished_in_time([cell], environment, 15) == []
    (folder / "checkpoint.pt").touch()
    assert finished_in_time([cell], environment, 15) == [cell]


def test_a_guess_from_other_hardware_holds_nothing_back(tmp_path, monkeypatch):
    # A faster machine would never start a cell, and so never measure it.
    cell = cell_of(0)
    slow = record(cell_of(9), 6000.0, "cpu (Another, 4 threads)")
    monkeypatch.setattr(durations, "read_lengths", lambda models: {"slow": slow})
    environment = Environment(tmp_path, tmp_path, CPU)
    assert finished_in_time([cell], environment, 60) == [cell]
    assert too_long([cell], environment, 60) == {}


@pytest.mark.parametrize(
    "bad",
    [["trainer.epochs=5"], ["trainer.epochs=0"], ["trainer.resolution=5"],
     ["dataset.limit_train=all"], [TUNED, "tuning.epochs=a"], [TUNED, "tuning.averages=3"],
     ["mechanism=lp_2st", "learner.fractions=3"]],
    ids=" ".join,
)  # fmt: skip
def test_a_cell_of_unknown_length_or_that_cannot_be_built_is_started(bad, tmp_path):
    # Without any record nothing would ever be started; or a traceback would end the sweep.
    cells = [cell_of(0, *bad), cell_of(1)]
    assert finished_in_time(cells, Environment(tmp_path, tmp_path, CPU), 1) == cells
