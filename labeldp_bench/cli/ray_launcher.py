"""`hydra/launcher=ray`: each job of a sweep is a task of Ray, on this machine or on a cluster.

Hydra's own plugin for Ray cannot be installed beside joblib 1.6: it asks for cloudpickle < 3.
"""

import os
from collections.abc import Sequence
from typing import Any

from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, setup_globals

from labeldp.support.validate import InputError


class RayLauncher(BasicLauncher):
    """Runs jobs side by side; a job whose worker dies leaves the others alone.

    Args:
        address: of a cluster; None: that of RAY_ADDRESS, else a new one on this machine.
        num_cpus: that one job takes, which says how many run at once.
        num_gpus: the same; Ray shows a job no other cards.
    """

    def __init__(self, address: str | None, num_cpus: float, num_gpus: float) -> None:
        super().__init__()
        self.address, self.needs = address, {"num_cpus": num_cpus, "num_gpus": num_gpus}

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> list[JobReturn]:
        """Returns what the jobs gave, in order.

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
        # Else torch takes all cores for each job.
        threads = os.environ.get("OMP_NUM_THREADS", str(max(1, int(self.needs["num_cpus"]))))
        environment = {"env_vars": {"OMP_NUM_THREADS": threads}}
        ray.init(self.address, runtime_env=environment, include_dashboard=False)
        try:
            # Tried again in silence, a job that needs too much memory would kill others.
            task = ray.remote(max_retries=0, **self.needs)(run_one)
            given = (self.hydra_context, self.task_function, self.config, Singleton.get_state())
            shared = ray.put((*given, os.getcwd()))
            running = [
                task.remote(shared, list(overrides), initial_job_idx + number)
                for number, overrides in enumerate(job_overrides)
            ]
            done, died = [], []
            for number, reference in enumerate(running, 1):
                try:
                    done.append(ray.get(reference))
                except ray.exceptions.RayError as error:
                    reason = str(error).strip().splitlines()[0]
                    died.append(f"job {number}: {type(error).__name__}: {reason}")
        finally:
            ray.shutdown()
        if died:
            raise RuntimeError(f"{len(died)} of {len(running)} jobs died; {died[0]}")
        return done


def run_one(shared: tuple[Any, ...], overrides: list[str], number: int) -> JobReturn:
    """Runs one job in a worker, as Hydra's own launcher does.

    Raises:
        RuntimeError: the job ended its process; an exit would pass for one that Ray asked for.
    """
    context, task_function, config, state, folder = shared
    setup_globals()
    Singleton.set_state(state)
    os.chdir(folder)
    launcher = BasicLauncher()
    launcher.setup(hydra_context=context, task_function=task_function, config=config)
    try:
        return launcher.launch([overrides], number)[0]
    except SystemExit as error:
        raise RuntimeError(f"it ended with status {error.code}") from None
