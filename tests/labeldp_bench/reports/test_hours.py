"""Status, hours and `minutes=`: what is done, how long the rest takes, which cells still start."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from labeldp_bench.cli.forecast import say_forecast
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment, scaled
from labeldp_bench.records.record import KEYS, write_record
from labeldp_bench.reports import estimates, status
from labeldp_bench.reports.estimates import (
    HoursEstimator,
    RoughEstimator,
    finished_in_time,
    images_trained_on,
    same_hardware,
)
from labeldp_bench.runs.environment import Environment
from labeldp_bench.support import hardware
from labeldp_bench.support.device import describe_device
from labeldp_bench.support.hardware import cpu_without_torch

HERE, ELSEWHERE = "cpu (Some CPU, 1 threads)", "Some GPU"
CPU = torch.device("cpu")
TUNED = "tuning=held_out_releases"


def record(cell, seconds, device=HERE, **values):
    return {
        "identity": cell.identity, "dataset": cell.dataset_name, "device": device,
        "model": cell.identity["model"], "wall_seconds": seconds, "images_per_second": None,
        "trials": None,
    } | values  # fmt: skip


def test_done_failed_and_missing(tmp_path):
    # A failed cell would count as done, or a committed one be trained again.
    name = "vector_approximation/table1b"
    cells = read_experiment(name).cells()
    for cell, file in ((cells[1], "record.json"), (cells[2], "error.txt")):
        (tmp_path / cell.folder).mkdir(parents=True)
        (tmp_path / cell.folder / file).write_text("{}")
    nothing = HoursEstimator(HERE, {})
    found = status.status_of(name, tmp_path, {cells[0].config_hash: {}}, nothing)
    assert (found.cells, found.done, found.failed, found.missing) == (165, 2, 1, 163)
    assert f"python -m labeldp_bench experiment={name} |" in status.table([found])
    quick = status.status_of(name, tmp_path, {}, nothing, "quick")
    assert (quick.cells, quick.done) == (99, 0)
    assert f"experiment={name} budget=quick |" in status.table([quick], "quick")


def test_a_fit_on_features_is_estimated_from_fits_on_other_data(tmp_path):
    # Nobody would know beforehand whether a table takes minutes or days.
    probe = ["model=probe", "encoder=lite0", "pretrain=imagenet", "mechanism=rr"]
    done = compose_cell(["dataset=cifar10_2", *probe])
    estimator = HoursEstimator(HERE, {"a": record(done, 30.7, n_train=30_700)})
    hundred = compose_cell(["dataset=cifar100", *probe])
    assert estimator.seconds(hundred) == (pytest.approx(500.0), estimates.FROM_FITS)
    other = compose_cell(["dataset=cifar100", *probe, "model.held_out=0.3"])
    assert math.isnan(estimator.seconds(other)[0])


def test_an_estimate_comes_from_the_nearest_measurement(tmp_path):
    # Hours of another machine, network or recipe would be promised.
    cell = compose_cell(["dataset=mnist", "mechanism=rr", "seed=3"])
    alike = compose_cell(["dataset=mnist", "mechanism=rr", "eps=0.3"])
    other = compose_cell(["dataset=mnist", "mechanism=rappor", "trainer.epochs=1"])
    speed = record(other, 5.0, images_per_second=1000.0)
    records = {"a": record(alike, 60.0, images_per_second=5000.0), "b": speed}

    def seconds(records, of=cell, here=HERE, **options):
        return HoursEstimator(here, records, **options).seconds(of)

    assert seconds(records) == (60.0, estimates.FROM_ALIKE)
    assert seconds(records, here=HERE.replace("1 threads", "2 threads"))[0] == 60.0
    assert seconds({"b": speed}) == (300.0, estimates.FROM_SPEED)
    assert math.isnan(seconds(records, here=ELSEWHERE, benchmark=tmp_path / "none.csv")[0])
    measured = tmp_path / "speed.csv"
    measured.write_text(f'model,images_per_second,device\ncnn,3000,"{HERE}"\n')
    assert seconds({}, benchmark=measured) == (100.0, estimates.FROM_BENCHMARK)
    # One name, two kinds of processors: what was measured in this precision comes first.
    bf16 = {"b": speed | {"precision": "bf16"}}
    slower = {"c": record(other, 5.0, images_per_second=250.0, precision="float32")}
    assert seconds(bf16 | slower, precision="float32")[0] == 1200.0
    assert seconds(bf16, precision="float32")[0] == 300.0
    # What only the other kind has run is converted by a model that both have.
    both = {
        kind: record(compose_cell(["dataset=cifar10", "mechanism=rr"]), 5.0, precision=kind,
                     images_per_second=speed)
        for kind, speed in (("bf16", 80.0), ("float32", 20.0))
    }  # fmt: skip
    assert seconds(bf16 | both, precision="float32")[0] == 1200.0
    measured.write_text(f'model,images_per_second,precision,device\ncnn,3000,bf16,"{HERE}"\n')
    assert seconds(both, precision="float32", benchmark=measured)[0] == 400.0
    trial = {"c": record(compose_cell(["mechanism=rr"]), 20.0, trials=100)}
    found = seconds(trial, compose_cell(["dataset.trials=1000"]))
    assert found == (pytest.approx(200.0), estimates.FROM_TRIALS)


def test_what_this_hardware_never_ran_is_guessed_from_other_hardware_and_models():
    # Somebody would read "unknown hours", or start a run of days without a word.
    known = compose_cell(["dataset=mnist", "mechanism=rr", "trainer.epochs=1"])
    new_model = compose_cell(["dataset=mnist", "mechanism=rr", "model=airbench"])
    of_other = compose_cell(["dataset=cifar10", "mechanism=rr", "model=wrn28_2"])
    records = {
        "gpu": record(known, 1.0, ELSEWHERE, images_per_second=60_000.0),
        "cpu": record(known, 60.0, "cpu (Another, 4 threads)", images_per_second=1000.0),
    }
    rough = RoughEstimator("cpu (Unheard of, 1 threads)", records)
    assert rough.seconds(known) == (60.0, estimates.FROM_OTHERS)  # of a CPU, not of a GPU
    assert rough.seconds(new_model)[0] == pytest.approx(images_trained_on(new_model) / 1000)
    assert rough.seconds(of_other)[0] == pytest.approx(images_trained_on(of_other) / 136.3)
    assert RoughEstimator(HERE, {"own": record(known, 7.0)}).seconds(known)[0] == 7.0


def test_a_long_run_says_how_long_and_what_fits_in_an_hour(tmp_path, capsys, monkeypatch):
    # It would be silent for minutes, and then take days.
    overrides = ["mechanism=rappor", "dataset=cifar100", "eps=2"]
    cell, here = compose_cell(overrides), cpu_without_torch("cpu")
    records = {"a": record(cell, 360_000.0, here.name, images_per_second=14.0)}
    small = compose_cell(["mechanism=rr", "dataset=cifar100", "model=resnet18_w16"])
    records["b"] = record(small, 60.0, here.name, images_per_second=1400.0)
    encoded = compose_cell(scaled([*overrides, "budget=features"]))
    records["c"] = record(encoded, 40.0, here.name, n_train=50_000)
    monkeypatch.setattr("labeldp_bench.cli.forecast.read_committed", lambda: records)
    say_forecast(cell, tmp_path, here, overrides)
    said = capsys.readouterr().out
    assert "4.2 days" in said and "trainer.epochs=1 (60 min)" in said and "budget=quick" in said
    assert "budget=features (40 s, and minutes more" in said  # to encode the images
    folder = tmp_path / cell.folder
    folder.mkdir(parents=True)
    (folder / "checkpoint.pt").touch()
    (folder / "history.csv").write_text("epoch\n" + "1\n" * 75)
    say_forecast(cell, tmp_path, here, overrides)
    assert "25.0 h" in capsys.readouterr().out  # what is left
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
from labeldp_bench.cli.forecast import say_forecast
from labeldp_bench.cli.main import compose_cell
from labeldp_bench.support.hardware import cpu_without_torch
given = ["mechanism=rappor", "dataset=cifar100"]
say_forecast(compose_cell(given), Path("none"), cpu_without_torch("cpu"), given)
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "budget=quick" in done.stdout and done.stdout.endswith("False\n"), done.stderr


def test_the_hardware_is_the_same_before_and_after_torch(monkeypatch, tmp_path):
    # A forecast would be that of another machine, or of emulated bf16.
    here = cpu_without_torch("cpu")
    assert same_hardware(here.name, describe_device(CPU))
    assert cpu_without_torch("cuda:0") is None
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(hardware, "CPUINFO", cpuinfo)
    for flags, precision in (("sse avx512_bf16", "bf16"), ("sse avx512f", "float32")):
        cpuinfo.write_text(f"model name\t: Some CPU\nflags\t\t: {flags}\n")
        found = cpu_without_torch("cpu")
        assert found.precision == precision and found.name.startswith("cpu (Some CPU, ")


@pytest.mark.parametrize("name", ["blockrr/table3", "ple/figure2", "mechanisms/photographs_card"])
def test_what_yaml_states_is_the_identity(name):
    # A forecast would find no record of the same cell.
    for cell in read_experiment(name).cells()[::20]:
        assert replace(cell, as_stated=True).identity == cell.identity


HALF = ["dataset=cifar10", "trainer.epochs=4", "trainer.resolution=[[0.5,0.5]]"]


@pytest.mark.parametrize(
    ("overrides", "images"),
    [
        (["dataset=cifar10", "mechanism=lp_2st", "learner.fractions=[0.8,0.2]",
          "trainer.epochs=10"], 50_000 * 10 * 1.8),
        (["dataset=cifar10_1", "trainer=blockrr"], 33_500 * 160),
        (["dataset=mnist", "dataset.limit_train=600"], 3000),
        (HALF, 50_000 * (2 / 4 + 2)),  # as many of full size
        ([*HALF, TUNED], 50_000 * 8 * (1 + 3 * 0.8)),  # its recipes have full size alone
        ([], math.nan),
    ],
)  # fmt: skip
def test_images_of_stages_of_small_images_and_of_imbalanced_data(overrides, images):
    assert images_trained_on(compose_cell(overrides)) == pytest.approx(images, nan_ok=True)


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


def test_compiling_in_a_first_epoch_is_not_expected_again(tmp_path):
    # On a GPU cells of a minute were left out, as the first of them had taken four.
    cells = [cell_of(seed) for seed in (0, 1)]
    environment = minute(tmp_path, cell_of(9))
    (history,) = [path.parent / "history.csv" for path in tmp_path.rglob("record.json")]
    history.write_text("epoch,seconds\n1,44\n2,4\n3,4\n4,4\n5,4\n")
    assert finished_in_time(cells, environment, 50) == cells  # 60 s less the 36 beyond 2 x 4
    history.write_text("epoch\n1\n")
    assert finished_in_time(cells, environment, 70) == cells[:1]


def test_a_tuned_cell_has_a_search_behind_or_before_it(tmp_path):
    # Before its first epoch it was said to need eight, and outlived its job by far.
    cell, environment = cell_of(0, TUNED), minute(tmp_path, cell_of(9, TUNED))
    folder = tmp_path / cell.folder
    folder.mkdir(parents=True)
    (folder / "checkpoint.pt").touch()
    # A minute is for 8 + 3 x 8 x 0.8 = 27.2 epochs.
    for epochs, seconds in (("", 60), ("1\n2\n3\n4\n5\n", 6)):
        (folder / "history.csv").write_text("epoch\n" + epochs)
        assert finished_in_time([cell], environment, seconds - 1) == []
        assert finished_in_time([cell], environment, seconds + 1) == [cell]


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
