"""Cells that share data and model run together: trials in worker processes, and failures."""

import contextlib
import math
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from joblib import Parallel, delayed
from torch import Tensor

from labeldp.mechanisms.base import LabelMechanism
from labeldp.store import ReleaseError
from labeldp.support.files import CannotWrite, write_text, writing
from labeldp.support.last_results import LastResults
from labeldp.support.progress import progress_bar, say
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import count_examples, file_of
from labeldp_bench.experiments.cell import Cell, Parts
from labeldp_bench.experiments.identity import SEEDED
from labeldp_bench.interfaces import Model, NetworkFactory, Pretrainable
from labeldp_bench.records.record import CHECKPOINT, is_done
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.result import Outcome
from labeldp_bench.runs.run import Run, TrialData, record, run_trial, share_data_and_model
from labeldp_bench.support.device import DeviceLost, device_failed, device_lost, out_of_memory
from labeldp_bench.support.process import comes_from_ctrl_c, ignoring_ctrl_c, keep_memory

LESS_MEMORY_TRAINED = (
    "free the device of other work, take a smaller model, or device=cpu; the batch size is part of "
    "the recipe"
)
LESS_MEMORY = "free the machine of other work, or take fewer classes or examples"
"""What to do where memory ran out, with and without a network."""
TELLS_NO_LABEL = (InputError, ReleaseError, OSError)
"""Errors whose message quotes no label: it is ours, or the system's."""
ReportFailure = Callable[[Cell, Path, Exception], None]
"""Called with a cell that failed, its folder and the reason."""


def write_failure(cell: Cell, folder: Path, error: Exception) -> None:
    """Writes `error.txt`, and one line on stderr, about a cell that failed.

    Where labels are secret, an error that was not made for a user is shown by its kind and place
    alone: its words may quote a label.
    """
    path, trace = folder / "error.txt", "".join(traceback.format_exception(error))
    text = " ".join(str(error).split())
    if cell.noise != SEEDED:
        if not isinstance(error, TELLS_NO_LABEL) and not device_failed(error):
            text = "its message is withheld, as it may hold a secret label"
        frames = "".join(traceback.format_tb(error.__traceback__))
        trace = f"{frames}{type(error).__name__}: {text}\n"
    with contextlib.suppress(CannotWrite):  # a full disk, which may be the failure itself
        write_text(path, trace)
    if out_of_memory(error):
        text = f"out of memory ({LESS_MEMORY_TRAINED if cell.has('trainer') else LESS_MEMORY})"
    elif not isinstance(error, InputError):
        text = f"{type(error).__name__}: {text} (see {path})"
    say(f"error: {cell.title}: {text}", sys.stderr)


def raise_or_write_failure(cell: Cell, folder: Path, error: Exception) -> None:
    """Raises what is wrong with the input of a single run; else as `write_failure`."""
    if isinstance(error, InputError) and not isinstance(error, Diverged):
        raise error
    write_failure(cell, folder, error)


MEMORY_SHARE = 0.8
"""Largest share of the free memory that one run may take."""


def check_memory(cell: Cell, parts: Parts, data_dir: Path) -> None:
    """Refuses a run whose largest arrays do not fit into the memory that is free.

    A lower bound: the likelihood of N releases under K classes, N x K float64, the confusion
    matrix, K x K int64, and for a mechanism that releases one label its transition matrix.

    Args:
        cell: the run.
        parts: its objects.
        data_dir: where the .npz files are; N is read from the head of one.

    Raises:
        InputError: says how much is needed and how much is free.
    """
    examples, classes = _num_examples(cell, data_dir), cell.setting("dataset.num_classes")
    if examples is None or not isinstance(classes, int):
        return
    squares = 2 if isinstance(parts.mechanism, LabelMechanism) else 1
    needed, free = 8 * classes * (examples + squares * classes), free_memory()
    if needed > MEMORY_SHARE * free:
        raise InputError(
            f"dataset.num_classes={classes} with {examples:,} examples needs "
            f"{needed / 1e9:,.1f} GB for N x K and K x K numbers, and {free / 1e9:,.1f} GB are "
            "free (take fewer classes or examples)"
        )


def _num_examples(cell: Cell, data_dir: Path) -> int | None:
    """Returns N, test points of drawn data with it, as they are scored for each class.

    None where it cannot be told before the data are read.
    """
    drawn, tested = cell.setting("dataset.n_train"), cell.setting("dataset.n_test")
    if isinstance(drawn, int):
        return drawn + (tested if isinstance(tested, int) else 0)
    source = cell.setting("dataset.source") or cell.setting("dataset.name")
    limit = cell.setting("dataset.limit_train")
    held = count_examples(file_of(data_dir, str(source))) if source else None
    known = [number for number in (held, limit) if isinstance(number, int)]
    return min(known, default=None)


def free_memory() -> float:
    """Returns the bytes that can still be taken; infinity where the system does not say."""
    info = Path("/proc/meminfo")
    if not info.is_file():
        return math.inf
    for line in info.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    return math.inf


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
    trial_data = TrialData(runs, environment)
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
    return runs


WORKERS_FROM_SECONDS = 8.0
"""Work that takes longer than this goes to processes, which take some seconds to start."""


_LAST_MODEL: LastResults[Model] = LastResults()
"""With the features and graphs that it keeps: alike for the next job, if only its seed differs."""


def run_cells(
    cells: Sequence[Cell], environment: Environment, fail: ReportFailure = write_failure
) -> int:
    """Runs cells that share data, model and seed; returns how many failed.

    A failure is reported by `fail` and leaves the other cells alone. Cells that are done, or that
    another process runs, are left out.

    Raises:
        InputError: cells of different data, models or seeds.
        DeviceLost: a GPU failed, after the cell's failure was reported: no other cell can run in
            this process.
    """
    if len(cells) > 1:  # the name of the data takes an import
        kinds = {(cell.data_name, cell.model_name, cell.seed) for cell in cells}
        if len(kinds) > 1:
            raise InputError(
                f"run_cells takes cells of the same data, model and seed, got {len(kinds)} kinds "
                "(call it once for each)"
            )
    batch = Batch(environment, fail)
    with ExitStack() as locks:
        for cell in cells:
            batch.add(cell, locks)
        try:
            batch.run()
        except KeyboardInterrupt:
            for run in batch.runs:
                if (file := run.folder / CHECKPOINT).is_file():
                    say(f"{run.cell.title}: kept in {file} up to its last save: repeat the command")
            raise
    return batch.failed


class Batch:
    """Cells that share data, model and seed, while they run.

    Args:
        environment: folders and device.
        fail: reports a failure.
    """

    def __init__(self, environment: Environment, fail: ReportFailure) -> None:
        self.environment, self.fail = environment, fail
        self.runs: list[Run] = []
        self.failed = 0

    def add(self, cell: Cell, locks: ExitStack) -> None:
        """Adds a cell and holds its lock, unless it is done or another process runs it."""
        folder = self.environment.out_dir / cell.folder
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                locks.enter_context(FileLock(folder / ".lock", timeout=0))
            except Timeout:
                say(f"{cell.title}: skipped, as another process is running it")
                return
        if is_done(folder):
            return
        try:
            parts = cell.build()
            check_memory(cell, parts, self.environment.data_dir)
            self.runs.append(Run(cell, folder, parts))
        except Exception as error:
            self._report(cell, error)

    def run(self) -> None:
        """Runs all trials and writes the records."""
        if not self.runs:
            return
        trial_data = TrialData(self.runs, self.environment)
        first = self.runs[0].parts
        try:
            share_data_and_model(self.runs, self._model(trial_data))
        except Exception as error:  # in what all share, so that no run can go on
            for run in self.runs:
                self._take(run, Outcome(error=error))
            return
        if first.dataset.trials == 1:
            self._one_trial(trial_data)
        else:
            self._many_trials(trial_data, first.dataset.trials)

    def _one_trial(self, trial_data: TrialData) -> None:
        """Runs the only trial; each run has its record as soon as it is done."""
        started = time.perf_counter()
        for run, outcome in zip(self.runs, run_trial(self.runs, 0, trial_data), strict=True):
            self._take(run, outcome)
            self._record(run, trial_data, time.perf_counter() - started)
            started = time.perf_counter()

    def _many_trials(self, trial_data: TrialData, trials: int) -> None:
        """Runs trial by trial; each run has an equal share of the time."""
        started = time.perf_counter()
        with progress_bar(None, trials, f"{trials} trials") as bar:
            for outcomes in self._outcomes(trial_data, trials):
                for run, outcome in zip(self.runs, outcomes, strict=True):
                    self._take(run, outcome)
                bar.update()
                if not self._running():
                    return
        share = (time.perf_counter() - started) / len(self._running())
        for run in self._running():
            self._record(run, trial_data, share)

    def _outcomes(self, trial_data: TrialData, trials: int) -> Iterator[list[Outcome]]:
        """Yields the outcomes of each trial; long work goes to worker processes."""
        yield list(run_trial(self.runs, 0, trial_data))  # warms up
        lap = time.perf_counter()
        yield list(run_trial(self.runs, 1, trial_data))
        lap = time.perf_counter() - lap
        rest = range(2, trials)
        can_spread = self.runs[0].parts.model.shares_work and worker_count() > 1
        if can_spread and lap * len(rest) > WORKERS_FROM_SECONDS:
            say(f"  {trials} trials in {worker_count()} processes")
            cells = [run.cell for run in self.runs]
            try:
                yield from trials_in_workers(cells, rest, lap, self.environment)
            except Exception as error:  # a worker died
                yield [Outcome(error=error) for _ in self.runs]
        else:
            for trial in rest:
                yield list(run_trial(self.runs, trial, trial_data))

    def _model(self, trial_data: TrialData) -> Model:
        """Returns the model of all cells: that of the job before, if it is the same one."""
        model, weights = self._pretrained(trial_data)
        if not model.shares_work:
            _LAST_MODEL.clear()
            return model
        key = (self.runs[0].cell.model_name, self.environment.device, *weights.values())
        return _LAST_MODEL.get(key, lambda: model)

    def _pretrained(self, trial_data: TrialData) -> tuple[Model, dict[str, Tensor]]:
        """Returns the model and the weights that it starts from; none without pre-training."""
        cell, parts = self.runs[0].cell, self.runs[0].parts
        pretraining = parts.pretrain
        if pretraining is None:
            return parts.model, {}
        from labeldp_bench.pretraining.weights import pretrained  # networks, which few runs have

        data, recipe, where = trial_data.of(0), cell.pretrain_recipe, self.environment
        _check_images(cell, data)
        assert isinstance(parts.model, Pretrainable), "a cell without a network is not built"
        parts.model.check_images(data.train_features)
        if pretraining.public_data is None:
            recipe["data"] = data.sha256
        used: dict[str, Tensor] = {}

        def weights_for(network: NetworkFactory) -> tuple[NetworkFactory, dict[str, Tensor]]:
            weights = pretrained(
                pretraining,
                network,
                data.train_features,
                recipe,
                where.data_dir,
                where.device,
                where.checkpoint_epochs,
            )
            for run in self.runs:
                run.outcome.notes |= weights.notes
            used.update(weights.tensors)
            return pretraining.network(network, where.data_dir), weights.tensors

        return parts.model.pretrained(weights_for), used

    def _running(self) -> list[Run]:
        return [run for run in self.runs if run.outcome.error is None]

    def _take(self, run: Run, outcome: Outcome) -> None:
        """Adds what a trial gave; the first failure of a run is reported."""
        if run.outcome.error is None:
            run.outcome.add(outcome)
            if run.outcome.error is not None:
                self._report(run.cell, run.outcome.error)

    def _record(self, run: Run, trial_data: TrialData, seconds: float) -> None:
        if run.outcome.error is None:
            try:
                record(run, trial_data.last, seconds, self.environment)
            except Exception as error:
                run.outcome.error = error
                self._report(run.cell, error)

    def _report(self, cell: Cell, error: Exception) -> None:
        self.failed += 1
        self.fail(cell, self.environment.out_dir / cell.folder, error)
        if device_lost(error):
            raise DeviceLost("the GPU failed") from error


def _check_images(cell: Cell, data: DataBundle) -> None:
    """Refuses to pre-train on anything but images, before a public data set is read for it."""
    from labeldp_bench.training.fit import IMAGE_AXES

    if data.train_features.dim() != IMAGE_AXES:
        raise InputError(
            f"pretrain={cell.choices['pretrain']} needs images of shape (N, H, W, C), and "
            f"{cell.dataset_name} has features of shape {tuple(data.train_features.shape)} (use "
            "pretrain=none with model=logistic or boosted_trees for tables, model=knn for points; "
            "with a curator mechanism=noisy_clusters)"
        )
