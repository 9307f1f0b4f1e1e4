"""Status: what is done, failed and missing, and how long the rest takes."""

import math
import runpy

import pytest

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.reports import estimates, status
from labeldp_bench.reports.estimates import HoursEstimator, images_trained_on
from labeldp_bench.reports.status import status_of
from tests.conftest import CHECKOUT

HERE, ELSEWHERE = "cpu (Some CPU, 1 threads)", "Some GPU"


def record(cell, seconds, device=HERE, **values):
    return {
        "identity": cell.identity, "dataset": cell.dataset_name, "device": device,
        "model": cell.identity["model"], "wall_seconds": seconds, "images_per_second": None,
        "trials": None,
    } | values  # fmt: skip


def test_done_failed_and_missing(tmp_path):
    # A failed cell would count as done, or a committed one be trained again.
    cells = read_experiment("vector_approximation/table1b").cells()
    name, records = "vector_approximation/table1b", {cells[0].config_hash: {}}
    for cell, file in ((cells[1], "record.json"), (cells[2], "error.txt")):
        folder = tmp_path / cell.folder
        folder.mkdir(parents=True)
        (folder / file).write_text("{}")
    found = status_of(name, tmp_path, records, HoursEstimator(HERE, {}))
    assert (found.cells, found.done, found.failed, found.missing) == (165, 2, 1, 163)
    text = status.table([found])
    assert "python -m labeldp_bench experiment=vector_approximation/table1b |" in text
    quick = status_of(name, tmp_path, records, HoursEstimator(HERE, {}), "quick")
    assert (quick.cells, quick.done) == (99, 0)
    assert "experiment=vector_approximation/table1b budget=quick |" in status.table(
        [quick], "quick"
    )


def test_an_estimate_comes_from_the_nearest_measurement(tmp_path):
    # Hours of another machine, network or recipe would be promised.
    cell = compose_cell(["dataset=mnist", "mechanism=rr", "seed=3"])
    alike = compose_cell(["dataset=mnist", "mechanism=rr", "eps=0.3"])
    other = compose_cell(["dataset=mnist", "mechanism=rappor", "trainer.epochs=1"])
    speed = record(other, 5.0, images_per_second=1000.0)
    records = {"a": record(alike, 60.0, images_per_second=5000.0), "b": speed}
    assert HoursEstimator(HERE, records).seconds(cell) == (60.0, estimates.FROM_ALIKE)
    two_threads = HERE.replace("1 threads", "2 threads")
    assert HoursEstimator(two_threads, records).seconds(cell)[0] == 60.0
    assert HoursEstimator(HERE, {"b": speed}).seconds(cell) == (300.0, estimates.FROM_SPEED)
    nothing = HoursEstimator(ELSEWHERE, records, benchmark=tmp_path / "none.csv")
    assert math.isnan(nothing.seconds(cell)[0])
    measured = tmp_path / "speed.csv"
    measured.write_text(f'model,images_per_second,device\ncnn,3000,"{HERE}"\n')
    assert HoursEstimator(HERE, {}, measured).seconds(cell) == (100.0, estimates.FROM_BENCHMARK)
    slower = record(other, 5.0, images_per_second=250.0, precision="float32")
    both = {"b": speed | {"precision": "bf16"}, "c": slower}  # one name, two kinds of processors
    assert HoursEstimator(HERE, both, precision="float32").seconds(cell)[0] == 1200.0
    assert HoursEstimator(HERE, {"b": both["b"]}, precision="float32").seconds(cell)[0] == 300.0
    circle = compose_cell(["dataset.trials=1000"])
    trial = {"c": record(compose_cell(["mechanism=rr"]), 20.0, trials=100)}
    assert HoursEstimator(HERE, trial).seconds(circle) == (
        pytest.approx(200.0),
        estimates.FROM_TRIALS,
    )


def test_images_of_stages_and_of_imbalanced_data():
    stages = ["dataset=cifar10", "mechanism=lp_2st", "learner.fractions=[0.8,0.2]",
              "trainer.epochs=10"]  # fmt: skip
    assert images_trained_on(compose_cell(stages)) == pytest.approx(50_000 * 10 * 1.8)
    blockrr = compose_cell(["dataset=cifar10_1", "trainer=blockrr"])
    assert images_trained_on(blockrr) == 33_500 * 160
    assert images_trained_on(compose_cell(["dataset=mnist", "dataset.limit_train=600"])) == 3000
    half = ["dataset=cifar10", "trainer.epochs=4", "trainer.resolution=[[0.5,0.5]]"]
    assert images_trained_on(compose_cell(half)) == 50_000 * (2 / 4 + 2)  # as many of full size
    tuned = compose_cell([*half, "tuning=held_out_releases"])  # its recipes have full size alone
    assert images_trained_on(tuned) == pytest.approx(50_000 * 8 * (1 + 3 * 0.8))
    grown = compose_cell([*half, "model=resnet18_w16"])
    speed = {"a": record(grown, 60.0, images_per_second=160.0)}
    whole = compose_cell(["dataset=cifar10", "model=resnet18_w16", "trainer.epochs=1"])
    assert HoursEstimator(HERE, speed).seconds(whole) == (50_000 / 100, estimates.FROM_SPEED)
    assert math.isnan(images_trained_on(compose_cell([])))


def test_the_script_says_what_is_wrong_in_one_line(capsys):
    # A reader would look for a budget, a table or a folder in a traceback.
    main = runpy.run_path(str(CHECKOUT / "scripts" / "status.py"))["main"]

    def run(*arguments: str) -> tuple[int, str, str]:
        return main(["budget=quick", *arguments]), *capsys.readouterr()

    code, shown, _ = run("experiment=ple/table1")
    assert code == 0 and "| ple/table1   | -       |" in shown
    for name in ("paper", "smoke"):
        assert f"  python scripts/status.py budget={name} " in shown
    assert "  quick    shown above" in shown
    code, _, said = run("experiment=ple/tabel1")
    assert code == 2 and "did you mean ple/table1" in said
    error = "error: out_dir must be the folder of your runs, got 'rnus' (no folder)\n"
    assert run("out_dir=rnus") == (2, "", error)
