"""The jobs of a sweep: in this process, or handed to joblib, Slurm or Ray."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.support.progress import duration, say
from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.support.process import comes_from_ctrl_c, prepare_training

CELLS_LEFT = 75
"""Exit code for "try again later" (EX_TEMPFAIL)."""
LONGEST_MESSAGE = 200
"""Characters of a launcher's message that are printed; it may be a page."""
COMMON_PARAMETERS = (
    "name",
    "timeout_min",
    "cpus_per_task",
    "gpus_per_node",
    "tasks_per_node",
    "nodes",
    "mem_gb",
    "stderr_to_stdout",
)
"""Parameters that submitit has for all kinds of clusters; the others begin with `slurm_` there."""


@dataclass(frozen=True)
class Job:
    """Cells of a sweep that run in one process, one after the other.

    Attributes:
        cells: share data and seed, or there is one.
        where: folders and device, as `environment_of` takes them: a node has its own device.
        many: whether it is part of a sweep; else bad input of its one cell raises.
        number: of the job, from 1.
        of: number of all jobs.
        before: number of cells in the jobs before this one.
        total: number of cells in all jobs.
        started: when the sweep started, in seconds since 1970.
        deadline: when it must be over; None for no limit.
    """

    cells: Sequence[Cell]
    where: Mapping[str, Any]
    many: bool = True
    number: int = 1
    of: int = 1
    before: int = 0
    total: int = 1
    started: float = 0.0
    deadline: float | None = None


def run_job(job: Job) -> int:
    """Runs the cells of a job; returns how many failed."""
    from labeldp_bench.reports.durations import finished_in_time
    from labeldp_bench.runs.environment import environment_of
    from labeldp_bench.runs.job import raise_or_write_failure, run_cells, write_failure
    from labeldp_bench.support.device import DeviceLost

    prepare_training()
    environment = environment_of(**job.where).on_own_gpu()
    cells = list(job.cells)
    if job.deadline is not None:
        cells = finished_in_time(cells, environment, job.deadline - time.time())
        if not cells:
            return 0
    if job.many:
        more = f" and {len(cells) - 1} more on the same data" if len(cells) > 1 else ""
        done = progress(job.before, job.total, time.time() - job.started)
        say(f"[{job.number}/{job.of}] {cells[0].title}{more}{f' ({done})' if job.of > 1 else ''}")
    try:
        return run_cells(cells, environment, write_failure if job.many else raise_or_write_failure)
    except DeviceLost:  # every other cell would fail too
        say("error: the GPU failed, and this process cannot use it again", sys.stderr)
        say("the same command continues in a new process; finished runs are kept")
        raise SystemExit(CELLS_LEFT) from None


def progress(before: int, total: int, seconds: float) -> str:
    """Returns how many cells of a sweep are done and how long the others will take, as text.

    Args:
        before: cells of the jobs before this one.
        total: all cells that the command has to run.
        seconds: since the first of them began.

    >>> progress(0, 215, 0.0), progress(5, 215, 120.0)
    ('0 of 215 cells', '5 of 215 cells, about 84 min left')
    """
    text = f"{before} of {total} cells"
    if not before or seconds <= 0:  # the clock may have been set back
        return text
    return f"{text}, about {duration(seconds / before * (total - before))} left"


def launch(
    jobs: Sequence[Job], launcher: str, settings: Mapping[str, Any], out_dir: Path
) -> tuple[int, bool]:
    """Runs jobs; returns how many of their cells failed, and whether all jobs came to an end.

    A launcher stops where a worker was killed (memory, a time limit, a node that went away).
    Its exception is printed as one line. Finished cells are kept; the same command runs the others.

    Args:
        jobs: in the order in which they start.
        launcher: the name of a file in configs/hydra/launcher; `basic` for this process.
        settings: the content of that file.
        out_dir: of the sweep.

    Raises:
        KeyboardInterrupt: Ctrl-C, whatever the launcher made of it.
        InputError: no such launcher, or what it needs is not there.
    """
    if launcher == "basic" or not jobs:
        failed = 0
        for job in jobs:
            if job.deadline is not None and job.deadline <= time.time():
                break
            failed += run_job(job)
        return failed, True
    if launcher not in LAUNCHERS:
        raise InputError(f"hydra/launcher must be one of basic, {', '.join(LAUNCHERS)}")
    try:
        return sum(LAUNCHERS[launcher](jobs, dict(settings), out_dir)), True
    except InputError:
        raise
    except Exception as error:
        if comes_from_ctrl_c(error):
            raise KeyboardInterrupt from None
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"
        more = " ..." if len(words) > LONGEST_MESSAGE else ""
        say(
            f"error: a worker process ended unexpectedly: {words[:LONGEST_MESSAGE]}{more}",
            sys.stderr,
        )
        return 0, False


def _by_joblib(jobs: Sequence[Job], settings: dict[str, Any], out_dir: Path) -> list[int]:
    """Runs jobs in processes of this machine; `settings` are those of `joblib.Parallel`."""
    from joblib import Parallel, delayed

    failed: list[int] = Parallel(**settings)(delayed(run_job)(job) for job in jobs)
    return failed


class Requeued:
    """Runs a job on a cluster, which may end it at its time limit and start it again."""

    def __call__(self, job: Job) -> int:
        """Returns how many cells of a job failed."""
        return run_job(job)

    def checkpoint(self, job: Job) -> Any:
        """Returns what submitit puts into the queue in place of a job that ran out of time."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


def _by_slurm(jobs: Sequence[Job], settings: dict[str, Any], out_dir: Path) -> list[int]:
    """Runs jobs as an array of Slurm; `settings` are those of submitit's executor."""
    try:
        from submitit import AutoExecutor
    except ModuleNotFoundError:
        raise InputError(
            "hydra/launcher=submitit_slurm needs submitit (pip install 'labeldp-bench[slurm]')"
        ) from None
    executor = AutoExecutor(
        folder=out_dir / ".submitit" / "%j",
        cluster=settings.pop("cluster"),
        slurm_max_num_timeout=settings.pop("max_num_timeout"),
    )
    executor.update_parameters(
        **{
            key if key in COMMON_PARAMETERS else f"slurm_{key}": value
            for key, value in settings.items()
            if value is not None
        }
    )
    return [running.result() for running in executor.map_array(Requeued(), jobs)]


def _by_ray(jobs: Sequence[Job], settings: dict[str, Any], out_dir: Path) -> list[int]:
    """Runs jobs as tasks of Ray; a worker that dies leaves the other jobs alone.

    Raises:
        InputError: Ray is not installed.
        RuntimeError: workers died; says how many, and why the first did.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
    try:
        import ray
    except ModuleNotFoundError:
        raise InputError(
            "hydra/launcher=ray needs Ray (pip install 'labeldp-bench[ray]')"
        ) from None
    address = settings.pop("address")
    # Else torch takes all cores for each job.
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, int(settings["num_cpus"]))))
    environment = {"env_vars": {"OMP_NUM_THREADS": threads}}
    ray.init(address, runtime_env=environment, include_dashboard=False)
    failed, died = [], []
    try:
        # Tried again in silence, a job that needs too much memory would kill others.
        task = ray.remote(max_retries=0, **settings)(_in_folder)
        running = [task.remote(job, os.getcwd()) for job in jobs]
        for number, reference in enumerate(running, 1):
            try:
                failed.append(ray.get(reference))
            except ray.exceptions.RayError as error:
                reason = str(error).strip().splitlines()[0]
                died.append(f"job {number}: {type(error).__name__}: {reason}")
    finally:
        ray.shutdown()
    if died:
        raise RuntimeError(f"{len(died)} of {len(running)} jobs died; {died[0]}")
    return failed


def _in_folder(job: Job, folder: str) -> int:
    """Runs a job from the folder of the command.

    Raises:
        RuntimeError: the job ended its process; an exit would pass for one that Ray asked for.
    """
    os.chdir(folder)
    try:
        return run_job(job)
    except SystemExit as error:
        raise RuntimeError(f"it ended with status {error.code}") from None


Launcher = Callable[[Sequence[Job], dict[str, Any], Path], list[int]]
LAUNCHERS: dict[str, Launcher] = {
    "joblib": _by_joblib,
    "submitit_slurm": _by_slurm,
    "ray": _by_ray,
}
"""{name in `hydra/launcher=`: returns how many cells of each job failed}."""
