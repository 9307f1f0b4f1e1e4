"""The run, as one straight line: data, vault, release, train, evaluate, record."""

import math
import pickle
import time
import traceback
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from labeldp_bench import processes, seeding
from labeldp_bench.cell import Cell
from labeldp_bench.checkpoint import NAME, Checkpoint
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.evaluate import per_class_accuracy
from labeldp_bench.fit import out_of_memory
from labeldp_bench.interrupt import comes_from_ctrl_c
from labeldp_bench.place import Place, describe_device
from labeldp_bench.progress import LONG_RUN_SECONDS, duration, progress_bar, say
from labeldp_bench.records import is_done, new_record, write_confusion, write_record
from labeldp_bench.risk import Tally
from labeldp_bench.trial import one_trial, packed_trial
from labeldp_bench.validate import InputError

# Work that takes longer than this goes to processes, which take some seconds to start.
SPREAD_SECONDS = 20.0
BLOCK_SECONDS = 2.0


@dataclass(eq=False)
class Run:
    """One cell while it runs: its objects and what its trials gave."""

    cell: Cell
    folder: Path
    parts: dict[str, Any]
    accuracies: list[float] = field(default_factory=list)
    confusion: Any = 0  # float64 (K, K), the sum: a thousand of them would fill the memory
    tally: Tally | None = None
    agreements: list[float] = field(default_factory=list)
    best_epoch_accuracy: float | None = None
    epochs_averaged: int | None = None
    extra_tests: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    ledger: list[dict[str, Any]] = field(default_factory=list)
    trust: str = "local"
    eps_spent: float = 0.0
    train_seconds: float = 0.0
    trained_examples: int = 0
    checkpoint: Checkpoint | None = None
    share: float = 1.0  # of the time that its job takes

    def add(self, later: "Run") -> None:
        """Takes in what the next trials of the same cell gave."""
        self.accuracies += later.accuracies
        self.confusion = self.confusion + later.confusion
        if later.tally is not None:
            self.tally = later.tally if self.tally is None else self.tally.merged(later.tally)
        self.agreements += later.agreements
        self.best_epoch_accuracy = later.best_epoch_accuracy
        self.epochs_averaged = later.epochs_averaged
        self.extra_tests = later.extra_tests
        self.notes |= later.notes
        self.ledger, self.trust = later.ledger, later.trust
        self.eps_spent = max(self.eps_spent, later.eps_spent)
        self.train_seconds += later.train_seconds
        self.trained_examples += later.trained_examples


def run_cells(cells: list[Cell], place: Place) -> list[Path]:
    """Runs cells that share data, model and seed; returns the folders of those that failed.

    A failure writes `error.txt` and one line, and leaves the other cells alone. A cell that is
    done, or that another process runs, is left to its record.
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
                failed.append(_fail(cell, folder, error))
        if runs:
            failed += _run_together(runs, place)
    except KeyboardInterrupt:
        for run in runs:
            if (run.folder / NAME).is_file():
                say(f"{run.cell.title}: the same command goes on from its {NAME}")
        raise
    finally:
        for lock in locks:
            lock.release()
    return failed


def _run_together(runs: list[Run], place: Place) -> list[Path]:
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
            if trial == 0 and "pretrain" in runs[0].parts:  # a network, so alone in its job
                before = time.perf_counter()
                model = pretrained_model(runs[0], bundle, place)
                started += time.perf_counter() - before  # work that many runs share
        except Exception as error:
            return failed + [_fail(run.cell, run.folder, error) for run in active]
        for run, why in each_run(active, bundle, model, seed, place):
            active.remove(run)
            failed.append(_fail(run.cell, run.folder, why))
        bar.update()
        if trial == 1:  # the first one warms up
            lap = time.perf_counter() - lap
            rest = range(2, dataset.trials)
            spread = _worth_spreading(lap * len(rest), model)
            _announce(lap, dataset.trials, processes.count() if spread else 1)
            if spread and active:
                for run, why in _in_processes(active, place, rest, lap, bar):
                    active.remove(run)
                    failed.append(_fail(run.cell, run.folder, why))
                break
    bar.close()
    seconds = (time.perf_counter() - started) / len(runs)
    for run in active:
        try:
            earlier = run.checkpoint.seconds_before if run.checkpoint else 0.0
            record = _record(run, bundle, dataset, model, seconds + earlier, place.device)
            if run.accuracies and not hasattr(dataset, "bayes_accuracy"):
                write_confusion(run.folder, run.confusion)
            write_record(run.folder, record)
            if run.checkpoint is not None:
                run.checkpoint.remove()
        except Exception as error:
            failed.append(_fail(run.cell, run.folder, error))
    return failed


def each_run(
    runs: list[Run], bundle: DataBundle, model: Any, seed: int, place: Place
) -> list[tuple[Run, Exception]]:
    """Runs one trial of every run; returns those that failed, and why."""
    keys = {run.cell.pack_key for run in runs}
    if len(runs) > 1 and len(keys) == 1 and None not in keys:
        return packed_trial(runs, bundle, model, seed, place)
    failed = []
    for run in runs:
        try:
            one_trial(run, bundle, model, seed, place)
        except Exception as error:
            failed.append((run, error))
    return failed


def _worth_spreading(seconds: float, model: Any) -> bool:
    shares_work = getattr(model, "shares_work", False)  # it has neither epochs nor a device
    return shares_work and processes.count() > 1 and seconds > SPREAD_SECONDS


def _in_processes(
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
        for run, error in each_run(active, bundle, model, seed, place):
            error.add_note("".join(traceback.format_exception(error)))  # a pickle has no traceback
            errors[runs.index(run)] = error
        given.append([(replace(run, parts={}), errors.get(i)) for i, run in enumerate(runs)])
    return given


@cache
def _built(cells: bytes) -> list[tuple[Cell, dict[str, Any]]]:
    """Returns the cells of a job and their objects; a worker builds them once, in silence."""
    built = [(cell, cell.build()) for cell in pickle.loads(cells)]
    dataset, model = built[0][1]["dataset"], built[0][1]["model"]
    if hasattr(model, "prepare"):
        model.prepare(dataset.trials, lambda _: None)
    return built


def pretrained_model(run: Run, bundle: DataBundle, place: Place) -> Any:
    """Returns the model of `run`, starting from pre-trained weights; trains them if need be."""
    model = run.parts["model"]
    image_shape = tuple(bundle.train_features.shape[1:])
    weights = run.parts["pretrain"].weights(
        model.network, image_shape, run.cell.pretrain_recipe, place.data_dir, place.device
    )
    run.notes["pretrained_sha256"] = weights.sha256
    return replace(model, initial=weights.tensors)


def _record(
    run: Run, bundle: DataBundle, dataset: Any, model: Any, seconds: float, device: torch.device
) -> dict[str, Any]:
    mechanism = run.parts["mechanism"]
    trainer = getattr(model, "trainer", None)
    rate = run.trained_examples / run.train_seconds if run.train_seconds else None
    return new_record(
        run.cell,
        dataset=bundle.name,
        eps=mechanism.eps,
        task=bundle.task,
        **_scores(run, dataset),
        eps_spent=run.eps_spent,
        delta=mechanism.delta,
        trust=run.trust,
        private=mechanism.private and math.isfinite(mechanism.eps),
        released_agreement=_mean(run.agreements),
        selection=trainer.selection if trainer else "last",
        precision=model.resolved_precision(device),
        epochs=trainer.epochs if trainer else None,
        epochs_averaged=run.epochs_averaged,
        n_train=len(bundle.train_features),
        n_test=len(bundle.test_labels),
        data_sha256=bundle.sha256,
        selection_sha256=bundle.selection_sha256,
        extra_accuracy=run.extra_tests,
        best_epoch_accuracy=run.best_epoch_accuracy,
        mechanism_summary=mechanism.summary(),
        ledger=run.ledger,
        notes=run.notes,
        wall_seconds=round(seconds, 3),
        images_per_second=round(rate, 1) if rate else None,
        device=describe_device(device),
        **({"packed": round(1 / run.share)} if run.share < 1 else {}),
    )


def _scores(run: Run, dataset: Any) -> dict[str, Any]:
    """Returns accuracies over test labels; the excess risk or the squared error of a tally."""
    if run.tally is not None:
        none = {"accuracy": None, "per_class_accuracy": None, "per_class_mean": None}
        return none | run.tally.summary()
    trials = torch.tensor(run.accuracies, dtype=torch.float64)
    classes = per_class_accuracy(run.confusion)
    scores = {
        "accuracy": float(trials.mean()),
        "per_class_accuracy": classes,
        "per_class_mean": _mean([accuracy for accuracy in classes if accuracy is not None]),
    }
    if hasattr(dataset, "bayes_accuracy"):
        many = len(trials) > 1
        scores["accuracy_sem"] = float(trials.std() / math.sqrt(len(trials))) if many else None
        scores |= {"bayes_accuracy": dataset.bayes_accuracy(), "trials": len(trials)}
    return scores


def _mean(numbers: list[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def _announce(lap: float, trials: int, workers: int) -> None:
    seconds = lap * trials / workers
    if seconds > 10:
        text = f"  about {duration(seconds)} for {trials} trials"
        text += f" in {workers} processes" if workers > 1 else ""
        if seconds > LONG_RUN_SECONDS:
            text += f"; under an hour: dataset.trials={int(LONG_RUN_SECONDS * workers / lap)}"
        say(text)


def _fail(cell: Cell, folder: Path, error: Exception) -> Path:
    path = folder / "error.txt"
    path.write_text("".join(traceback.format_exception(error)))
    text = " ".join(str(error).split())
    if out_of_memory(error):
        text = (
            "out of memory (free the device of other work, take a smaller model, or device=cpu; "
            "the batch size is part of the recipe)"
        )
    if isinstance(error, InputError) or out_of_memory(error):
        say(f"error: {cell.title}: {text}")
    else:
        say(f"error: {cell.title}: {type(error).__name__}: {text} (see {path})")
    return folder
