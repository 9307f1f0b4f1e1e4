"""Trials of one job in worker processes; the outcome is that of one process."""

import os
import pickle
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import cache

import torch
from joblib import Parallel, delayed

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.outcome import Outcome
from labeldp_bench.runs.run import Run, TrialData, run_trial, share_data_and_model
from labeldp_bench.support.process import comes_from_ctrl_c, ignoring_ctrl_c, keep_memory

BLOCK_SECONDS = 0.5


def worker_count() -> int:
    """Returns how many processes work: the number of torch's threads, so OMP_NUM_THREADS."""
    return torch.get_num_threads()


def trials_in_workers(
    cells: Sequence[Cell], trials: range, seconds_each: float, environment: Environment
) -> Iterator[list[Outcome]]:
    """Yields, trial by trial and in order, what each cell gave; computed in worker processes.

    Every trial draws from its own streams, so the outcome is that of one process.

    Args:
        cells: share data, model and seed.
        trials: which.
        seconds_each: how long a trial takes, to choose the size of a block.
        environment: folders; workers have one thread each.

    Raises:
        KeyboardInterrupt: Ctrl-C, whatever it was wrapped in.
    """
    most = len(trials) // (4 * worker_count())
    size = max(1, min(int(BLOCK_SECONDS / seconds_each), most))
    spelled = pickle.dumps(list(cells))
    parallel = Parallel(
        worker_count(), return_as="generator", initializer=_start, initargs=(os.getpid(),)
    )
    try:
        with ignoring_ctrl_c():  # for workers, which inherit it; their parent soon listens again
            blocks = parallel(
                delayed(_block)(spelled, trials[start : start + size], environment)
                for start in range(0, len(trials), size)
            )
        for block in blocks:
            # Bytes, as torch would send tensors through shared memory that dies with its process.
            yield from pickle.loads(block)
    except Exception as error:
        if comes_from_ctrl_c(error):
            raise KeyboardInterrupt from None
        raise


def _start(parent: int) -> None:
    """Prepares a worker, which ends when its parent does."""
    keep_memory()
    threading.Thread(target=_leave_with_parent, args=[parent], daemon=True).start()


def _leave_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _block(cells: bytes, trials: range, environment: Environment) -> bytes:
    """Returns the pickled outcomes of some trials.

    Trial by trial, so that sums of floats are taken in one order whatever the blocks are.
    """
    torch.set_num_threads(1)
    runs = [Run(run.cell, run.folder, run.parts) for run in _runs(cells, environment)]
    trial_data = TrialData(runs[0], environment)
    given: list[list[Outcome]] = []
    for trial in trials:
        given.append(list(run_trial(runs, trial, trial_data)))
        for run, outcome in zip(runs, given[-1], strict=True):
            if outcome.error is not None and run.outcome.error is None:
                # a pickle holds no traceback
                outcome.error.add_note("".join(traceback.format_exception(outcome.error)))
                run.outcome.error = outcome.error
    for number in range(len(runs)):
        # Counts, whose order is free; a matrix for each trial would be most of the traffic.
        first, *others = [trial[number] for trial in given]
        for outcome in others:
            if first.confusion is not None and outcome.confusion is not None:
                first.confusion = first.confusion + outcome.confusion
                outcome.confusion = None
    return pickle.dumps(given)


@cache
def _runs(cells: bytes, environment: Environment) -> list[Run]:
    """Returns the cells of a job with their objects; a worker builds them once, in silence."""
    runs = [
        Run(cell, environment.out_dir / cell.folder, cell.build()) for cell in pickle.loads(cells)
    ]
    share_data_and_model(runs, runs[0].parts.model)
    runs[0].parts.model.prepare(runs[0].parts.dataset.trials, lambda _: None)
    return runs
