"""Worker processes: the same numbers as one process, and a clean end whatever happens."""

import json
import os
import pickle
import signal
import threading
import time
import traceback

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs import processes, run, spread, trial
from labeldp_bench.runs.environment import Place
from tests.conftest import TINY_CIRCLE
from tests.shell import HANGS, records_under, start

TIMED = ("wall_seconds", "device")
CPU = torch.device("cpu")


def place(folder):
    return Place(folder, folder / "data", CPU)


def cells(*mechanisms):
    trials = "dataset.trials=23"
    return [compose_cell([*TINY_CIRCLE, trials, f"mechanism={each}"]) for each in mechanisms]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    processes._end()


def squared(number):
    if number == 5:
        raise ValueError("no five")
    if number == 6:
        os._exit(1)
    return number**2, torch.get_num_threads(), os.getpid()


def test_records_do_not_depend_on_the_number_of_processes(tmp_path, monkeypatch, two_threads):
    # A sweep would mean one thing on a laptop and another on a server.
    used = []
    real = processes.spread
    monkeypatch.setattr(
        processes, "spread", lambda work, blocks: used.append(len(blocks)) or real(work, blocks)
    )
    votes = cells("alibi", "lp_2st", "rrwithprior")
    sums = ["dataset=holder_regression", "dataset.n_train=300", "dataset.trials=23"]
    risk = [compose_cell([*sums, "mechanism=clipped_laplace"])]
    for job in (votes, risk):
        assert run.run_cells(job, place(tmp_path / "one")) == [] == used
    monkeypatch.setattr(spread, "SPREAD_SECONDS", 0)
    for job in (votes, risk):
        assert run.run_cells(job, place(tmp_path / "two")) == []
    assert len(used) == 2 and used[0] > 2
    folders = [records_under(tmp_path / name) for name in ("one", "two")]
    assert len(folders[0]) == 4
    for one, two in zip(*folders, strict=True):
        left, right = (json.loads(path.read_text()) for path in (one, two))
        assert left["trials"] == 23
        for each in (left, right):
            for key in TIMED:
                del each[key]
        assert left == right


def test_blocks_come_in_order_and_failures_pass(two_threads):
    # Sums in float depend on the order; a lost exception would lose its cell.
    results = list(processes.spread(squared, [3, 1, 2, 4]))
    assert [square for square, _, _ in results] == [9, 1, 4, 16]
    assert {threads for _, threads, _ in results} == {1}
    assert os.getpid() not in {pid for _, _, pid in results}
    with pytest.raises(ValueError, match="no five"):
        list(processes.spread(squared, [1, 5]))
    torch.set_num_threads(1)
    with pytest.raises(Exception, match="terminated abruptly"):
        list(processes.spread(squared, [6]))
    assert processes._pool is None  # the next call has new processes


def test_one_thread_means_one_process(monkeypatch):
    # OMP_NUM_THREADS=1 is how people keep a run to one core.
    torch.set_num_threads(1)
    model = cells("rr")[0].build()["model"]
    assert not spread.is_worthwhile(1e6, model)


def test_trial_that_fails_in_a_worker_ends_its_cell_alone(tmp_path, monkeypatch):
    # A record of fewer trials than it says, or an error.txt without the place of the error.
    original = trial.one_trial
    seen = []

    def fails_late(each, *rest):
        seen.append(each.cell.identity["mechanism"])
        if each.cell.identity["mechanism"] == "rr" and seen.count("rr") == 3:
            raise ValueError("out of luck")
        original(each, *rest)

    monkeypatch.setattr(trial, "one_trial", fails_late)
    spelled = pickle.dumps(cells("rr", "rappor"))
    given = pickle.loads(
        pickle.dumps(spread.block_of_trials(spelled, place(tmp_path), range(2, 9)))
    )
    assert [len(rr.accuracies) for (rr, _), _ in given] == [1, 1, 0, 0, 0, 0, 0]
    assert [len(rappor.accuracies) for _, (rappor, _) in given] == [1] * 7
    assert seen.count("rr") == 3
    assert all("fails_late" in "".join(traceback.format_exception(rr[1])) for rr, _ in given[2:])

    monkeypatch.setattr(processes, "spread", lambda work, blocks: map(work, blocks))
    monkeypatch.setattr(spread, "is_worthwhile", lambda *_: True)
    seen.clear()
    failed = run.run_cells(cells("rr", "rappor"), place(tmp_path))
    assert [path.parts[-4] for path in failed] == ["rr"]
    assert "out of luck" in (failed[0] / "error.txt").read_text()
    assert [path.parts[-5] for path in records_under(tmp_path)] == ["rappor"]


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
        assert rest == ["interrupted: 1 of 1 cells left; the same command goes on\n"]
    assert records_under(tmp_path) == []
