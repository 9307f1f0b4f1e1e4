"""The run, as one straight line: data, vault, release, train, evaluate, record."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from labeldp_bench import processes, seeding, spread
from labeldp_bench.cell import Cell
from labeldp_bench.checkpoint import NAME
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.outcome import Fail, Run, note, record_of
from labeldp_bench.place import Place
from labeldp_bench.pretrain import pretrained
from labeldp_bench.progress import LONG_RUN_SECONDS, duration, progress_bar, say
from labeldp_bench.records import is_done, write_confusion, write_record
from labeldp_bench.trial import trial_of_each


def run_cells(cells: list[Cell], place: Place, fail: Fail = note) -> list[Path]:
    """Runs cells that share data, model and seed; returns the folders of those that failed.

    A failure is left to `fail`, and leaves the other cells alone. A cell that is done, or that
    another process runs, is left to its record.
    """
    failed: list[Path] = []
    runs: list[Run] = []
    locks: list[FileLock] = []
    try:
        for cell in cells:
            folder = place.out_dir / cell.folder
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / ".lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"{cell.title}: another process is running it, left alone")
                continue
            locks.append(lock)
            if is_done(folder):
                continue
            try:
                runs.append(Run(cell, folder, cell.build()))
            except Exception as error:
                failed.append(fail(cell, folder, error))
        if runs:
            failed += _run_together(runs, place, fail)
    except KeyboardInterrupt:
        for run in runs:
            if (run.folder / NAME).is_file():
                say(f"{run.cell.title}: the same command goes on from its {NAME}")
        raise
    finally:
        for lock in locks:
            lock.release()
    return failed


def _run_together(runs: list[Run], place: Place, fail: Fail) -> list[Path]:
    failed: list[Path] = []
    dataset, model = runs[0].parts["dataset"], runs[0].parts["model"]
    if hasattr(model, "prepare"):
        model.prepare(dataset.trials, say)
    started = time.perf_counter()
    active = list(runs)
    bar = progress_bar(None, dataset.trials, f"{dataset.trials} trials", dataset.trials > 1)
    for trial in range(dataset.trials):
        lap = time.perf_counter()
        try:
            seed = seeding.derive(runs[0].cell.seed, "trial", trial)
            bundle = dataset.draw(place.data_dir, seed)
            if trial == 0 and "pretrain" in runs[0].parts:  # one network for all of a job
                before = time.perf_counter()
                model = pretrained_model(runs, bundle, place)
                started += time.perf_counter() - before  # work that many runs share
        except Exception as error:
            return failed + [fail(run.cell, run.folder, error) for run in active]
        for run, why in trial_of_each(active, bundle, model, seed, place):
            active.remove(run)
            failed.append(fail(run.cell, run.folder, why))
        bar.update()
        if trial == 1:  # the first one warms up
            lap = time.perf_counter() - lap
            rest = range(2, dataset.trials)
            many = spread.is_worthwhile(lap * len(rest), model)
            _announce(lap, dataset.trials, processes.count() if many else 1)
            if many and active:
                for run, why in spread.in_processes(active, place, rest, lap, bar):
                    active.remove(run)
                    failed.append(fail(run.cell, run.folder, why))
                break
    bar.close()
    seconds = (time.perf_counter() - started) / len(runs)
    for run in active:
        try:
            earlier = run.checkpoint.seconds_before if run.checkpoint else 0.0
            record = record_of(run, bundle, model, seconds + earlier, place.device)
            if run.accuracies and not hasattr(dataset, "bayes_accuracy"):
                write_confusion(run.folder, run.confusion)
            write_record(run.folder, record)
            if run.checkpoint is not None:
                run.checkpoint.remove()
        except Exception as error:
            failed.append(fail(run.cell, run.folder, error))
    return failed


def pretrained_model(runs: list[Run], bundle: DataBundle, place: Place) -> Any:
    """Returns the model of all `runs`, with pre-trained weights; trains them if need be."""
    model, recipe = runs[0].parts["model"], runs[0].parts["pretrain"]
    decided_by = runs[0].cell.pretrain_recipe
    if recipe.public_data is None:
        decided_by["data"] = bundle.sha256
    weights = pretrained(
        recipe, model.network, bundle.train_features, decided_by, place.data_dir, place.device
    )
    for run in runs:
        run.notes |= weights.notes
    return replace(model, initial=weights.tensors)


def _announce(lap: float, trials: int, workers: int) -> None:
    seconds = lap * trials / workers
    if seconds > 10:
        text = f"  about {duration(seconds)} for {trials} trials"
        text += f" in {workers} processes" if workers > 1 else ""
        if seconds > LONG_RUN_SECONDS:
            text += f"; under an hour: dataset.trials={int(LONG_RUN_SECONDS * workers / lap)}"
        say(text)
