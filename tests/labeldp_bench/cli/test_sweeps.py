"""Sweeps: every cell once, done cells never again, whatever happens in between."""

import csv
import json
import re
import signal
import time
from pathlib import Path

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser

from labeldp.support.validate import InputError
from labeldp_bench.cli.sweep import grouped
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.conftest import TINY_CIRCLE
from tests.shell import Command, quick, records_under, untimed
from tests.spelling import expand

EIGHT = ["-m", *TINY_CIRCLE, "mechanism=rr,rappor", "eps=0.5,1", "seed=0,1"]
# Eight cells in four jobs, each of a tenth of a second at least.
SLOW = ["-m", "dataset.trials=5", "mechanism=rr,rappor", "seed=0,1,2,3", "out_dir=runs"]


OWN = """# @package _global_
# My comparison.
cells:
  - set: {dataset: circle, dataset.n_train: 300, dataset.n_test: 100, dataset.trials: 2, model.k: 5}
    grid: {mechanism: [mine, rr], eps: [1]}
"""


def mtimes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in records_under(folder)}


def test_an_own_experiment_runs_and_shows_its_table(tmp_path):
    # Hours of training would end with "there is no experiment".
    for name, text in (("experiment/mine", OWN), ("mechanism/mine", "defaults: [rr]")):
        path = tmp_path / "own" / f"{name}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    line = ["--config-dir", "own", "experiment=mine"]
    outcome = quick(line, tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "2 cells: 2 done in results/runs" in outcome.stdout and "| mine " in outcome.stdout
    again = quick([*line, "mechanism=mine"], tmp_path)
    assert again.lines[1] == "1 cell: 1 done in results/runs, 0 to run in 0 jobs"
    wrong = quick([*line[:2], "experiment=mne"], tmp_path)
    assert wrong.returncode == 2 and "did you mean mine?" in wrong.stderr


def test_sweep_gives_records_table_and_picture_and_runs_once(tmp_path):
    # A finished sweep would be paid for twice, or end without what a person wants to see.
    first = quick(EIGHT, tmp_path)
    assert first.returncode == 0, first
    assert first.lines[1] == "8 cells: 0 done in results/runs, 8 to run in 2 jobs"
    before = mtimes(tmp_path)
    assert len(before) == 8
    for kind in ("table", "picture"):
        [path] = re.findall(rf"^{kind} +(\S+)$", first.stdout, re.M)
        assert (tmp_path / path).stat().st_size > 0
        assert path.endswith(".png" if kind == "picture" else ".md")
    assert re.search(r"^\| RAPPOR +\|( \d+\.\d\d ± \d+\.\d\d +\|){2}$", first.stdout, re.M)
    # A reduced run would look like the paper's.
    assert "- circle: 300 training examples, 100 test examples, 2 trials, 2 seeds, model knn." in (
        first.lines
    )
    again = quick(EIGHT, tmp_path)
    assert again.returncode == 0
    assert again.lines[1] == "8 cells: 8 done in results/runs, 0 to run in 0 jobs"
    assert again.lines[2:] == [line for line in first.lines[2:] if not line.startswith("[")]
    assert mtimes(tmp_path) == before
    wider = quick([*EIGHT, "mechanism=rr,rappor,none"], tmp_path)
    # Cells of `none` are one for all eps.
    assert wider.lines[1] == "10 cells: 8 done in results/runs, 2 to run in 2 jobs"
    assert mtimes(tmp_path).items() >= before.items()


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_sweep_resumes_with_the_missing_cells(kill, tmp_path):
    # Hours of finished cells would be lost to Ctrl-C or to a power cut.
    command = Command(SLOW, tmp_path)
    while len(records_under(tmp_path)) < 2 and command.runs:
        time.sleep(0.02)
    command.signal(kill)
    outcome = command.outcome()
    before = mtimes(tmp_path)
    assert 2 <= len(before) < 8, "the sweep ended before it was killed"
    assert "Traceback" not in outcome.stdout + outcome.stderr
    if kill == signal.SIGINT:
        assert outcome.returncode == 130
        left = f"interrupted: {8 - len(before)} of 8 cells are left: repeat the command"
        assert outcome.stdout.splitlines()[-1] == left
    resumed = quick(SLOW, tmp_path)
    assert resumed.returncode == 0
    assert resumed.lines[1].startswith(
        f"8 cells: {len(before)} done in runs, {8 - len(before)} to run"
    )
    assert len(records_under(tmp_path)) == 8
    assert mtimes(tmp_path).items() >= before.items()


def test_sweep_without_time_starts_nothing_and_names_what_is_left(tmp_path):
    # A cluster job would be killed in the middle, or its loop would not know to go on.
    line = ["-m", *TINY_CIRCLE, "mechanism=rr,rappor", "seed=0,1", "minutes=1e-9"]
    outcome = quick(line, tmp_path)
    assert outcome.returncode == 75 and outcome.stderr == ""
    assert records_under(tmp_path) == []
    last = outcome.stdout.splitlines()[-1]
    assert last.startswith("4 of 4 cells are left: repeat the command (")
    assert last.count("rr (plain) on circle") == 2 and last.count("rappor (bce) on circle") == 2


def test_days_of_an_experiment_are_announced_and_published_rows_shown(tmp_path):
    # A person without a GPU would start eight months of training, or read 270 lines of refusals.
    line = ["experiment=blockrr/table3", "eps=1,2", "minutes=1e-9", "device=cpu"]
    outcome = quick(line, tmp_path)
    assert outcome.returncode == 75 and len(outcome.lines) < 30
    assert re.search(r"^60 cells to run take [\d.]+ days .*", outcome.lines[2])
    before = outcome.stdout.partition("no record yet")[0]
    assert re.search(r"budget=features: 30 cells, \d+ (s|min)", before)
    shown = [line.split("|")[1:-1] for line in outcome.lines if "published " in line]
    found = {name.strip(): [float(each) for each in values] for name, *values in shown}
    assert found["BlockRR, published"] == [55.12, 78.86]  # two sigmas, one row
    assert found.keys() == {f"{name}, published" for name in ("RR", "RRWithPrior", "BlockRR")}


def test_failing_cell_leaves_the_others_alone(tmp_path):
    # One bad cell would end a night of runs, or pass unnoticed.
    line = ["-m", *TINY_CIRCLE, "learner.loss=plain", "mechanism=rr,rappor,none", "eps=1"]
    # A cell that cannot work is not one that `minutes=` left: a loop would start it for ever.
    outcome = quick([*line, "minutes=600"], tmp_path)
    assert outcome.returncode == 1
    [error] = outcome.stderr.splitlines()
    assert error.startswith("error: rappor (plain) on circle")
    assert "learner.loss=plain needs one label" in error
    assert outcome.stdout.splitlines()[-1] == "1 of 3 cells failed; each has an error.txt"
    assert "Traceback" not in outcome.stdout + outcome.stderr
    [path] = tmp_path.rglob("error.txt")
    assert not (path.parent / "record.json").exists()
    assert len(records_under(tmp_path)) == 2
    assert list(tmp_path.rglob("sweep-*.png"))
    assert quick(line, tmp_path).lines[1] == "3 cells: 2 done in results/runs, 1 to run in 1 job"


def test_two_processes_never_write_one_record_twice(tmp_path):
    # Two people on one machine would pay twice, or read a record while it is written.
    line = ["-m", "dataset.trials=4", "mechanism=rr,rappor", "seed=0,1,2,3", "out_dir=runs"]
    commands = [Command(line, tmp_path) for _ in range(2)]
    seen: dict[Path, set[tuple[int, int]]] = {}
    while any(command.runs for command in commands):
        for path in records_under(tmp_path):
            status = path.stat()
            seen.setdefault(path, set()).add((status.st_ino, status.st_mtime_ns))
            json.loads(path.read_text())  # never half-written
        time.sleep(0.02)
    outcomes = [command.outcome() for command in commands]
    codes = [outcome.returncode for outcome in outcomes]
    assert 0 in codes and set(codes) <= {0, 75}, outcomes
    for code, outcome in zip(codes, outcomes, strict=True):
        assert ("cells are left to another process" in outcome.stdout) == (code == 75)
    [table] = (tmp_path / "runs" / "sweeps").glob("*.csv")
    with table.open() as file:  # the last to write it saw the cells of both
        assert [row["seeds"] for row in csv.DictReader(file)] == ["4", "4"]
    assert len(records_under(tmp_path)) == 8
    assert all(len(written) == 1 for written in seen.values())
    assert not any("Traceback" in outcome.stdout + outcome.stderr for outcome in outcomes)


def test_sweep_yaml_works_without_m_and_the_command_line_wins(tmp_path):
    # A ready grid could not be made small, or `eps=7` would be ignored without a word.
    small = ["dataset.trials=2", "dataset.n_train=300", "dataset.n_test=50", "model.k=20"]
    small += ["dataset.num_classes=3,10"]
    outcome = quick(["sweep=circle", *small], tmp_path)
    assert outcome.lines[1] == "4 cells: 0 done in results/runs, 4 to run in 2 jobs"
    assert {path.parts[-3] for path in records_under(tmp_path)} == {"eps=1", "eps=2"}
    assert list(tmp_path.rglob("sweeps/circle-*.png"))  # a part of the sweep, so not its name
    outcome = quick(["experiment=quickstart", *small, "eps=7", "out_dir=seven"], tmp_path)
    assert outcome.lines[1] == "6 cells: 0 done in seven, 6 to run in 2 jobs"
    records = [json.loads(path.read_text()) for path in records_under(tmp_path / "seven")]
    assert {record["eps"] for record in records} == {7.0, "inf"}
    assert {record["n_train"] for record in records} == {300}


def test_committed_cells_are_done_for_an_experiment_and_for_nothing_else(tmp_path):
    # A clone would train what the repository already knows; or a user's own sweep would be empty.
    line = ["experiment=mechanisms/circle", "mechanism=rr", "dataset.num_classes=40"]
    known = quick(line, tmp_path)
    assert known.returncode == 0 and not records_under(tmp_path)
    assert known.lines[1].startswith("1 cell: 1 stored in results/records.csv (rerun=true ")
    stops = "minutes=1e-9"  # before anything is run
    [cell, *_] = expand(read_experiment("mechanisms/circle").blocks, {"mechanism": ["rr"]})
    for other in ([*line, "rerun=true"], ["-m", *cell]):
        outcome = quick([*other, stops], tmp_path)
        assert outcome.returncode == 75
        assert outcome.lines[1] == "1 cell: 0 done in results/runs, 1 to run in 1 job"


def test_cells_on_the_same_points_share_a_job_and_change_nothing(tmp_path):
    # The search would be paid once per mechanism, or a neighbour cell would change a result.
    blocks = [{"grid": {"mechanism": ["rr", "rappor"], "eps": [1, 2], "seed": [0, 1]}}]
    axes = {text.split("=")[0]: [text.split("=")[1]] for text in TINY_CIRCLE}
    spelled = expand(blocks, axes)
    others = ("dataset.num_classes=5", "dataset.sigma=0.1", "model.k=10")
    spelled += [[*spelled[0], changed] for changed in others]
    # Networks share nothing, and would wait for each other.
    spelled += [["dataset=mnist", f"mechanism={name}"] for name in ("rr", "rappor")]
    jobs = grouped([compose_cell(overrides) for overrides in spelled])
    assert sorted(len(job) for job in jobs) == [1, 1, 1, 1, 1, 4, 4]
    assert all(len({cell.seed for cell in job}) == 1 for job in jobs)
    shared = max(jobs, key=len)
    together = Environment(tmp_path / "together", tmp_path, torch.device("cpu"))
    alone = Environment(tmp_path / "alone", tmp_path, torch.device("cpu"))
    assert run_cells(shared, together) == 0
    for cell in shared:
        assert run_cells([cell], alone) == 0
        one, two = (place.out_dir / cell.folder / "record.json" for place in (together, alone))
        assert untimed(one) == untimed(two)


VALUES = [1, 0.5, float("inf"), 1e-05, True, None, "2/K", "a,b", "it's", 'say "hi"', "x=y", ""]
VALUES += ["null", "10", "a\\b", "end\\", "sp ace", "[1]", [1, 2.5], ["a,b", None], [[1], []]]


@pytest.mark.parametrize("value", [*VALUES, {"a": 1}])
def test_values_of_a_block_come_back_from_an_override(value):
    # A cell would run with another value than the YAML says, or not parse.
    [[text]] = expand([{"set": {"key": value}}], {})
    override = OverridesParser.create().parse_override(text)
    assert not override.is_sweep_override()
    read = plain(override.value())
    assert read == value and type(read) is type(value)


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return getattr(value, "text", value)  # a quoted string


def test_what_a_mechanism_brings_can_be_left_out_for_another_learner():
    # lp_mst brings the shares of its stages, and cluster_prior has none: no cell could be built.
    overrides = ["mechanism=lp_mst", "learner=cluster_prior", "dataset=mnist", "model=ridge"]
    assert "fractions" not in compose_cell([*overrides, "~learner.fractions"]).config["learner"]
    with pytest.raises(InputError, match=r"~learner\.fractions"):
        compose_cell(overrides).build()


def test_blocks_expand_in_order_and_the_command_line_wins():
    # A table would have cells that nobody asked for.
    blocks = [{"set": {"eps": 1}, "grid": {"seed": [0, 1]}}, {"set": {"mechanism": "rr"}}]
    assert expand(blocks, {"eps": ["7"], "model.k": ["3", "4"]}) == [
        ["eps=7", "seed=0", "model.k=3"],
        ["eps=7", "seed=0", "model.k=4"],
        ["eps=7", "seed=1", "model.k=3"],
        ["eps=7", "seed=1", "model.k=4"],
        ["mechanism=rr", "eps=7", "model.k=3"],
        ["mechanism=rr", "eps=7", "model.k=4"],
    ]
    assert expand([{}], {}) == [[]]
    assert expand([{"set": None, "grid": {"seed": []}}], {}) == []


@pytest.mark.parametrize("blocks", [3, {"set": {}}, [3], [{"sett": {}}], [{"grid": {"eps": 3}}]])
def test_malformed_cells_are_refused(blocks):
    # The author of an experiment would get a traceback, or a sweep without cells.
    with pytest.raises(InputError):
        expand(blocks, {})


def test_values_that_an_experiment_has_pick_its_cells():
    # BlockRR's cell of one eps would run with the sigma of another.
    blocks = [{"set": {"eps": 1, "a": 5}}, {"set": {"a": 6}, "grid": {"eps": [2, 4]}}, {}]
    assert expand(blocks, {"eps": ["2.0"]}) == [["a=6", "eps=2"], ["eps=2.0"]]
    assert expand(blocks, {"eps": ["1", "4"]})[:2] == [["eps=1", "a=5"], ["a=6", "eps=4"]]
    # One value that no block has: all of them are meant for every block.
    assert expand(blocks, {"eps": ["2", "7"]})[:2] == [["eps=2", "a=5"], ["eps=7", "a=5"]]
