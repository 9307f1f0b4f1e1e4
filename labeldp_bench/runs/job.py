"""What stands around a run: locks, shared work, progress, worker processes, failures."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from filelock import FileLock, Timeout
from torch import Tensor

from labeldp.support.files import writing
from labeldp.support.last_results import LastResults
from labeldp.support.progress import LONG_RUN_SECONDS, duration, progress_bar, say
from labeldp.support.validate import InputError
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.interfaces import Model, NetworkFactory
from labeldp_bench.pretraining.weights import pretrained
from labeldp_bench.records.record import is_done
from labeldp_bench.runs.checkpoint import NAME
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.failures import ReportFailure, write_failure
from labeldp_bench.runs.memory import check_memory
from labeldp_bench.runs.outcome import Outcome
from labeldp_bench.runs.run import Run, TrialData, record, run_trial, share_data_and_model
from labeldp_bench.runs.workers import trials_in_workers, worker_count
from labeldp_bench.support.device import DeviceLost, device_lost
from labeldp_bench.training.fit import IMAGE_AXES

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
        DeviceLost: a GPU failed, after the cell's failure was reported: no other cell can run in
            this process.
    """
    job = Job(environment, fail)
    with ExitStack() as locks:
        for cell in cells:
            job.add(cell, locks)
        try:
            job.run()
        except KeyboardInterrupt:
            for run in job.runs:
                if (run.folder / NAME).is_file():
                    say(f"{run.cell.title}: the same command goes on from its {NAME}")
            raise
    return job.failed


class Job:
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
        trial_data = TrialData(self.runs[0], self.environment)
        first = self.runs[0].parts
        try:
            share_data_and_model(self.runs, self._model(trial_data))
            self.runs[0].parts.model.prepare(first.dataset.trials, say)
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
            _announce(lap, trials, worker_count())
            cells = [run.cell for run in self.runs]
            try:
                yield from trials_in_workers(cells, rest, lap, self.environment)
            except Exception as error:  # a worker died
                yield [Outcome(error=error) for _ in self.runs]
        else:
            _announce(lap, trials, 1)
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
        data, recipe, where = trial_data.of(0), cell.pretrain_recipe, self.environment
        _check_images(cell, data)
        parts.model.check_images(data.train_features)
        if pretraining.public_data is None:
            recipe["data"] = data.sha256
        used: dict[str, Tensor] = {}

        def weights_for(network: NetworkFactory) -> tuple[NetworkFactory, dict[str, Tensor]]:
            weights = pretrained(
                pretraining, network, data.train_features, recipe,
                where.data_dir, where.device, where.checkpoint_epochs,
            )  # fmt: skip
            for run in self.runs:
                run.outcome.notes |= weights.notes
            used.update(weights.tensors)
            return pretraining.network(network), weights.tensors

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
    if data.train_features.dim() != IMAGE_AXES:
        raise InputError(
            f"pretrain={cell.choices['pretrain']} needs images of shape (N, H, W, C), and "
            f"{cell.dataset_name} has features of shape {tuple(data.train_features.shape)} (use "
            "pretrain=none with model=logistic or boosted_trees for tables, model=knn for points; "
            "with a curator mechanism=noisy_clusters)"
        )


def _announce(lap: float, trials: int, workers: int) -> None:
    """Says how long many trials will take, and how to have fewer."""
    seconds = lap * trials / workers
    if seconds > 10:
        text = f"  about {duration(seconds)} for {trials} trials"
        text += f" in {workers} processes" if workers > 1 else ""
        if seconds > LONG_RUN_SECONDS:
            text += f"; under an hour: dataset.trials={int(LONG_RUN_SECONDS * workers / lap)}"
        say(text)
