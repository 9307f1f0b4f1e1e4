"""Trials of one job in worker processes; the outcome is that of one process."""

import pickle
import traceback
from dataclasses import replace
from functools import cache, partial
from typing import Any

from labeldp_bench import processes, seeding
from labeldp_bench.cell import Cell
from labeldp_bench.interrupt import comes_from_ctrl_c
from labeldp_bench.outcome import Run
from labeldp_bench.place import Place
from labeldp_bench.trial import trial_of_each

# Work that takes longer than this goes to processes, which take some seconds to start.
SPREAD_SECONDS = 8.0
BLOCK_SECONDS = 0.5


def is_worthwhile(seconds: float, model: Any) -> bool:
    """Returns whether trials that take `seconds` in this process go to several."""
    shares_work = getattr(
        model, "shares_work", False
    )  # of those, models of many trials have no device
    return shares_work and processes.count() > 1 and seconds > SPREAD_SECONDS


def in_processes(
    runs: list[Run], place: Place, trials: range, lap: float, bar: Any
) -> list[tuple[Run, Exception]]:
    """Runs `trials` of all runs in worker processes; returns the runs that failed, and why.

    Every trial draws from its own streams and blocks come back in order, so that the outcome is
    that of one process.
    """
    size = max(1, min(int(BLOCK_SECONDS / lap), len(trials) // (4 * processes.count())))
    blocks = [trials[start : start + size] for start in range(0, len(trials), size)]
    work = partial(block_of_trials, pickle.dumps([run.cell for run in runs]), place)
    failed: dict[int, Exception] = {}
    try:
        for block in processes.spread(work, blocks):
            for given in block:
                for number, (part, error) in enumerate(given):
                    if error is not None:
                        failed.setdefault(number, error)
                    if number not in failed:
                        runs[number].add(part)
                bar.update()
    except Exception as error:  # a worker died
        if comes_from_ctrl_c(error):
            raise KeyboardInterrupt from None
        return [(run, error) for run in runs]
    return [(runs[number], error) for number, error in failed.items()]


def block_of_trials(
    cells: bytes, place: Place, trials: range
) -> list[list[tuple[Run, Exception | None]]]:
    """Returns what each of `trials` gave for each of the pickled cells; in a worker.

    Trial by trial, so that sums of floats are taken in one order whatever the blocks are.
    """
    built = _built(cells)
    dataset, model = built[0][1]["dataset"], built[0][1]["model"]
    errors: dict[int, Exception] = {}
    given = []
    for trial in trials:
        runs = [Run(cell, place.out_dir / cell.folder, parts) for cell, parts in built]
        seed = seeding.derive(runs[0].cell.seed, "trial", trial)
        bundle = dataset.draw(place.data_dir, seed)
        active = [run for number, run in enumerate(runs) if number not in errors]
        for run, error in trial_of_each(active, bundle, model, seed, place):
            error.add_note("".join(traceback.format_exception(error)))  # a pickle has no traceback
            errors[runs.index(run)] = error
        given.append([(replace(run, parts={}), errors.get(i)) for i, run in enumerate(runs)])
    for number in range(len(built)):
        # Counts, whose order is free; a matrix for each trial would be most of the traffic.
        parts = [trial[number][0] for trial in given]
        parts[-1].confusion = sum(part.confusion for part in parts)
        for part in parts[:-1]:
            part.confusion = 0
    return given


@cache
def _built(cells: bytes) -> list[tuple[Cell, dict[str, Any]]]:
    """Returns the cells of a job and their objects; a worker builds them once, in silence."""
    built = [(cell, cell.build()) for cell in pickle.loads(cells)]
    dataset, model = built[0][1]["dataset"], built[0][1]["model"]
    if hasattr(model, "prepare"):
        model.prepare(dataset.trials, lambda _: None)
    return built
