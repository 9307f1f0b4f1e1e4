"""Jobs: a failure leaves the other cells alone, and workers give the numbers of one process."""

import json
import os
import signal
import threading
import time
from unittest.mock import Mock

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models.neighbours import NearestNeighbours
from labeldp_bench.runs import job
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells, trials_in_workers
from tests.conftest import TINY_CIRCLE
from tests.shell import HANGS, SERVER, quick, records_under, start, untimed


def cells(*mechanisms, trials=2):
    own = [*TINY_CIRCLE, f"dataset.trials={trials}"]
    return [compose_cell([*own, *f"mechanism={each}".split()]) for each in mechanisms]


def environment(folder):
    return Environment(folder, folder, torch.device("cpu"))


def test_failure_before_the_first_trial_is_each_cells_until_the_next_try(
    tmp_path, monkeypatch, capsys
):
    # The sweep would stop with a traceback, or `make status` count a finished cell as failed.
    with monkeypatch.context() as patched:
        fails = Mock(side_effect=torch.OutOfMemoryError("full"))
        patched.setattr("labeldp_bench.runs.job.share_data_and_model", fails)
        assert run_cells(cells("rr", "rappor"), environment(tmp_path)) == 2
    assert len(list(tmp_path.rglob("error.txt"))) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert run_cells(cells("rr", "rappor"), environment(tmp_path)) == 0
    assert list(tmp_path.rglob("error.txt")) == []


@pytest.mark.parametrize("other", ["dataset.num_classes=3", "seed=1", "model.k=7"])
def test_cells_of_different_data_are_refused(other, tmp_path):
    # All had the first one's data, model and seed, under their own names.
    with pytest.raises(InputError, match="2 kinds"):
        run_cells(cells("rr", f"rr {other}"), environment(tmp_path))
    assert records_under(tmp_path) == []


def test_failure_in_a_cell_leaves_its_neighbours_alone(tmp_path, capsys):
    # One bad cell would cost the whole job; or its time would be booked to nobody.
    good, bad = cells("rr", "lp_2st learner.fractions=[0.9999,0.0001]")  # an empty stage
    assert run_cells([bad, good], environment(tmp_path)) == 1
    [record] = records_under(tmp_path)
    assert json.loads(record.read_text())["mechanism"] == "rr"
    [error] = tmp_path.rglob("error.txt")
    assert "lp_2st" in str(error)
    assert capsys.readouterr().err.startswith("error: lp_2st (plain) on circle")


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


TRIALS = 9


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_records_do_not_depend_on_the_number_of_processes(tmp_path, monkeypatch, two_threads):
    # A sweep would mean one thing on a laptop and another on a server.
    used = []
    real = job.trials_in_workers
    monkeypatch.setattr(
        job, "trials_in_workers", lambda *given: used.append(given[1]) or real(*given)
    )
    votes = cells("alibi", "lp_2st", "rrwithprior", trials=TRIALS)
    sums = ["dataset=holder_regression", "dataset.n_train=300", f"dataset.trials={TRIALS}"]
    risk = [compose_cell([*sums, "mechanism=clipped_laplace"])]
    for each in (votes, risk):
        assert run_cells(each, environment(tmp_path / "one")) == 0
    assert used == []
    monkeypatch.setattr(job, "WORKERS_FROM_SECONDS", 0)
    for each in (votes, risk):
        assert run_cells(each, environment(tmp_path / "two")) == 0
    assert used == [range(2, TRIALS)] * 2
    folders = [records_under(tmp_path / name) for name in ("one", "two")]
    assert len(folders[0]) == 4
    for one, two in zip(*folders, strict=True):
        assert untimed(one) == untimed(two) and untimed(one)["trials"] == TRIALS


def test_one_thread_means_one_process(tmp_path, monkeypatch):
    # OMP_NUM_THREADS=1 is how people keep a run to one core.
    monkeypatch.setattr(job, "WORKERS_FROM_SECONDS", 0)
    monkeypatch.setattr(job, "trials_in_workers", lambda *_: pytest.fail("workers were started"))
    assert torch.get_num_threads() == 1
    assert run_cells(cells("rr", trials=TRIALS), environment(tmp_path)) == 0


def test_a_cell_that_fails_in_a_worker_fails_alone(tmp_path, two_threads):
    # A record of fewer trials than it says; or one bad cell would take its neighbours along.
    bad, good = cells("lp_2st learner.fractions=[0.9999,0.0001]", "rappor")  # an empty stage
    outcomes = list(trials_in_workers([bad, good], range(2, 9), 0.2, environment(tmp_path)))
    assert len(outcomes) == 7
    assert all("lp_2st" not in str(good.error) and good.error is None for _, good in outcomes)
    assert sum(len(good.accuracies) for _, good in outcomes) == 7
    assert all(bad.error is not None and not bad.accuracies for bad, _ in outcomes)
    assert "Traceback" in "".join(outcomes[0][0].error.__notes__)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_run(how, tmp_path):
    # Ctrl-C would print a traceback per worker; a killed run would leave them behind for ever.
    process = start(["-m", "dataset.trials=20000", "mechanism=rr"], tmp_path, threads=2)
    hangs = threading.Timer(HANGS, os.killpg, (process.pid, signal.SIGKILL))
    hangs.daemon = True
    hangs.start()
    lines = iter(process.stdout.readline, "")
    assert any("in 2 processes" in line for line in lines)

    def stop():
        time.sleep(1)
        while process.poll() is None:  # while workers start, Ctrl-C is not heard
            (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
            time.sleep(10)

    threading.Thread(target=stop, daemon=True).start()
    rest = list(lines)  # ends when the last process that holds the pipe has gone
    process.wait(HANGS)
    hangs.cancel()
    if how == signal.SIGINT:
        assert process.returncode == 130
        # The resource tracker of joblib may warn of semaphores that its workers left to it.
        own = [line for line in rest if "resource_tracker" not in line and line[:1] != " "]
        assert own == ["interrupted: 1 of 1 cells are left: repeat the command\n"]
    assert records_under(tmp_path) == []


def test_a_worker_that_dies_fails_the_job_with_its_reason(tmp_path, monkeypatch, two_threads):
    # The job would hang for ever, or write records of fewer trials.
    monkeypatch.setattr(job, "WORKERS_FROM_SECONDS", 0)
    [cell] = cells("rr", trials=TRIALS)

    def dying(*_):
        raise RuntimeError("a worker was killed")
        yield

    monkeypatch.setattr(job, "trials_in_workers", dying)
    assert run_cells([cell], environment(tmp_path)) == 1
    assert records_under(tmp_path) == []
    [error] = tmp_path.rglob("error.txt")
    assert "a worker was killed" in error.read_text()
