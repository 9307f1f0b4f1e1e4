"""A failure leaves `error.txt`, one line, and the other cells alone."""

import itertools
import json

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models import NearestNeighbours
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.conftest import TINY_CIRCLE
from tests.shell import HANGS, SERVER, quick, records_under


def cells(*mechanisms):
    return [compose_cell([*TINY_CIRCLE, *f"mechanism={each}".split()]) for each in mechanisms]


def environment(folder):
    return Environment(folder, folder, torch.device("cpu"))


@pytest.mark.parametrize("error", [RuntimeError("no cache"), torch.OutOfMemoryError("full")])
def test_failure_before_the_first_trial_is_each_cells(error, tmp_path, monkeypatch, capsys):
    # The sweep would stop with a traceback, its other cells undone.
    def fails(*_):
        raise error

    monkeypatch.setattr("labeldp_bench.runs.job.share_data_and_model", fails)
    assert run_cells(cells("rr", "rappor"), environment(tmp_path)) == 2
    assert len(list(tmp_path.rglob("error.txt"))) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_failure_in_a_cell_leaves_its_neighbours_alone(tmp_path, capsys):
    # One bad cell would cost the whole job; or its time would be booked to nobody.
    good, bad = cells("rr", "lp_2st learner.fractions=[0.9999,0.0001]")  # an empty stage
    assert run_cells([bad, good], environment(tmp_path)) == 1
    [record] = records_under(tmp_path)
    assert json.loads(record.read_text())["mechanism"] == "rr"
    [error] = tmp_path.rglob("error.txt")
    assert "lp_2st" in str(error)
    assert capsys.readouterr().err.startswith("error: lp_2st (plain) on circle")


def test_failed_neighbours_take_no_share_of_the_time(tmp_path, monkeypatch):
    # `make status` would promise half of the hours that the rest takes.
    clock = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    good, bad = cells("rr", "lp_2st learner.fractions=[0.9999,0.0001]")
    seconds = []
    for job, folder in (([good], "alone"), ([bad, good], "beside")):
        run_cells(job, environment(tmp_path / folder))
        [record] = records_under(tmp_path / folder)
        seconds.append(json.loads(record.read_text())["wall_seconds"])
    assert seconds[0] == seconds[1] > 0


def test_next_try_takes_the_error_away(tmp_path, monkeypatch):
    # `make status` would count a finished cell as failed.
    with monkeypatch.context() as patched:
        patched.setattr("labeldp_bench.runs.job.share_data_and_model", lambda *_: 1 / 0)
        assert run_cells(cells("rr"), environment(tmp_path)) == 1
    assert run_cells(cells("rr"), environment(tmp_path)) == 0
    assert list(tmp_path.rglob("error.txt")) == []


def test_a_gpu_that_failed_ends_the_sweep_and_keeps_what_is_done(tmp_path):
    # Every later cell would fail in the same process, with an error.txt each and exit status 0.
    arguments = ["-m", *TINY_CIRCLE, "mechanism=rr,rappor,alibi", "seed=0,1", "out_dir=runs"]
    process = SERVER.Process(target=_main_until_the_gpu_fails, args=(arguments, tmp_path))
    process.start()
    process.join(HANGS)
    assert process.exitcode == 75
    assert len(records_under(tmp_path)) == 3, "one job of three cells, then the failure"
    told = (tmp_path / ".err").read_text()
    assert "the GPU failed, and this process cannot use it again" in told
    assert "Traceback" not in told and "continues" in (tmp_path / ".out").read_text()
    assert quick(arguments, tmp_path).returncode == 0
    assert len(records_under(tmp_path)) == 6


def _main_until_the_gpu_fails(arguments, folder):
    from tests.shell import _main

    plain, calls = NearestNeighbours.fit, []

    def fit(*given, **named):
        calls.append(1)
        if len(calls) == 7:  # two trials of three cells, then the next job
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        return plain(*given, **named)

    NearestNeighbours.fit = fit
    _main(arguments, folder, [folder / ".out", folder / ".err"], {})
