"""Worker processes: the same numbers as one process, and a clean end whatever happens."""

import json
import os
import signal
import threading
import time

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs import job
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import trials_in_workers
from tests.conftest import TINY_CIRCLE
from tests.shell import HANGS, records_under, start

TIMED = ("wall_seconds", "device", "checksum")
TRIALS = 23


def environment(folder):
    return Environment(folder, folder / "data", torch.device("cpu"))


def cells(*mechanisms):
    trials = f"dataset.trials={TRIALS}"
    return [
        compose_cell([*TINY_CIRCLE, trials, *f"mechanism={each}".split()]) for each in mechanisms
    ]


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
    votes = cells("alibi", "lp_2st", "rrwithprior")
    sums = ["dataset=holder_regression", "dataset.n_train=300", f"dataset.trials={TRIALS}"]
    risk = [compose_cell([*sums, "mechanism=clipped_laplace"])]
    for each in (votes, risk):
        assert job.run_cells(each, environment(tmp_path / "one")) == 0
    assert used == []
    monkeypatch.setattr(job, "WORKERS_FROM_SECONDS", 0)
    for each in (votes, risk):
        assert job.run_cells(each, environment(tmp_path / "two")) == 0
    assert used == [range(2, TRIALS)] * 2
    folders = [records_under(tmp_path / name) for name in ("one", "two")]
    assert len(folders[0]) == 4
    for one, two in zip(*folders, strict=True):
        left, right = (json.loads(path.read_text()) for path in (one, two))
        assert left["trials"] == TRIALS
        for each in (left, right):
            for key in TIMED:
                del each[key]
        assert left == right


def test_one_thread_means_one_process(tmp_path, monkeypatch):
    # OMP_NUM_THREADS=1 is how people keep a run to one core.
    monkeypatch.setattr(job, "WORKERS_FROM_SECONDS", 0)
    monkeypatch.setattr(job, "trials_in_workers", lambda *_: pytest.fail("workers were started"))
    assert torch.get_num_threads() == 1
    assert job.run_cells(cells("rr"), environment(tmp_path)) == 0


def test_a_cell_that_fails_in_a_worker_fails_alone(tmp_path, two_threads):
    # A record of fewer trials than it says; or one bad cell would take its neighbours along.
    bad, good = cells("lp_2st learner.fractions=[0.9999,0.0001]", "rappor")  # an empty stage
    outcomes = list(trials_in_workers([bad, good], range(2, 9), 0.2, environment(tmp_path)))
    assert len(outcomes) == 7
    assert all("lp_2st" not in str(good.error) and good.error is None for _, good in outcomes)
    assert sum(len(good.accuracies) for _, good in outcomes) == 7
    assert all(bad.error is not None and not bad.accuracies for bad, _ in outcomes)
    assert "Traceback" in "".join(outcomes[0][0].error.__notes__)


def test_a_worker_that_dies_fails_the_job_with_its_reason(tmp_path, monkeypatch, two_threads):
    # The job would hang for ever, or write records of fewer trials.
    monkeypatch.setattr(job, "WORKERS_FROM_SECONDS", 0)
    [cell] = cells("rr")

    def dying(*_):
        raise RuntimeError("a worker was killed")
        yield

    monkeypatch.setattr(job, "trials_in_workers", dying)
    assert job.run_cells([cell], environment(tmp_path)) == 1
    assert records_under(tmp_path) == []
    [error] = tmp_path.rglob("error.txt")
    assert "a worker was killed" in error.read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_run(how, tmp_path):
    # Ctrl-C would print a traceback per worker; a killed run would leave them behind for ever.
    process = start(["-m", "dataset.trials=20000", "mechanism=rr"], tmp_path, threads=2)
    hangs = threading.Timer(HANGS, os.killpg, (process.pid, signal.SIGKILL))
    hangs.daemon = True
    hangs.start()
    lines = iter(process.stdout.readline, "")
    assert any("in 2 processes" in line for line in lines)
    time.sleep(1)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    rest = list(lines)  # ends when the last process that holds the pipe has gone
    process.wait(HANGS)
    hangs.cancel()
    if how == signal.SIGINT:
        assert process.returncode == 130
        # The resource tracker of joblib may warn of semaphores that its workers left to it.
        own = [line for line in rest if "resource_tracker" not in line and line[:1] != " "]
        assert own == ["interrupted: 1 of 1 cells left; the same command goes on\n"]
    assert records_under(tmp_path) == []
