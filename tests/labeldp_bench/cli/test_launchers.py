"""A sweep on a launcher gives the records of a sweep in one process."""

import importlib.util
import json
import os
import shutil
import sys
import types
from pathlib import Path

import pytest

from labeldp_bench.cli.ray_launcher import RayLauncher
from tests.conftest import TINY_CIRCLE
from tests.shell import HANGS, quick, records_under, start

RAY = importlib.util.find_spec("ray") is not None
FOUR = ["-m", *TINY_CIRCLE, "mechanism=rr,rappor", "seed=0,1"]
TIMED = ("wall_seconds", "images_per_second", "checksum")
SLURM = [
    "hydra/launcher=submitit_slurm", "hydra.launcher.partition=main", "hydra.launcher.mem_gb=2",
    "hydra.launcher.cpus_per_task=1", "hydra.launcher.timeout_min=10",
    "hydra.launcher.array_parallelism=2",
]  # fmt: skip


def records(folder: Path) -> dict[Path, dict]:
    """Returns what the records under a folder say, times left out."""
    found = {path.relative_to(folder): json.loads(path.read_text())
             for path in records_under(folder)}  # fmt: skip
    return {path: {key: value for key, value in record.items() if key not in TIMED}
            for path, record in found.items()}  # fmt: skip


def needs(module: str, extra: str) -> None:
    if importlib.util.find_spec("hydra_plugins") is None or not importlib.util.find_spec(module):
        pytest.skip(f"{module} is not installed (pip install 'labeldp-bench[{extra}]')")


def same_as_in_one_process(launcher: list[str], tmp_path: Path) -> None:
    process = start([*FOUR, "out_dir=several", *launcher], tmp_path)
    output = process.communicate(timeout=HANGS)[0]
    assert process.returncode == 0, output
    assert "4 cells: 4 done in" in output
    assert quick([*FOUR, "out_dir=one"], tmp_path).returncode == 0
    assert len(records(tmp_path / "one")) == 4
    assert records(tmp_path / "several") == records(tmp_path / "one")


def test_joblib(tmp_path):
    # A user with many cores could not use them, or would get other numbers.
    needs("hydra_plugins.hydra_joblib_launcher", "joblib")
    same_as_in_one_process(["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"], tmp_path)


def test_slurm(tmp_path):
    # A cluster would be the first to try it.
    needs("hydra_plugins.hydra_submitit_launcher", "slurm")
    if shutil.which("sbatch") is None or "SLURM_CONF" not in os.environ:
        pytest.skip("no Slurm is running (see scripts/cluster_slurm.py)")
    same_as_in_one_process(SLURM, tmp_path)


def test_ray(tmp_path):
    # Who has a Ray cluster would be the first to try it. RAY_ADDRESS names one (cluster_ray.py).
    if not RAY:
        pytest.skip("ray is not installed (pip install 'labeldp-bench[ray]')")
    same_as_in_one_process(["hydra/launcher=ray"], tmp_path)


def test_ray_that_is_not_there_is_one_line(tmp_path):
    if RAY:
        pytest.skip("ray is installed")
    outcome = quick([*FOUR, "hydra/launcher=ray"], tmp_path)
    [error] = outcome.stderr.splitlines()
    assert outcome.returncode == 2
    assert error == "error: hydra/launcher=ray needs Ray (pip install 'labeldp-bench[ray]')"


class PretendRay(types.ModuleType):
    """Ray, as far as the launcher asks for it; workers of chosen jobs die."""

    class RayError(Exception):
        """The root of what Ray raises."""

    def __init__(self, died):
        super().__init__("ray")
        self.died, self.exceptions, self.ended = died, self, False

    def init(self, address, **settings):
        self.address = address

    def put(self, value):
        return value

    def remote(self, **needs):
        self.needs = needs
        return lambda function: types.SimpleNamespace(remote=lambda *given: given)

    def get(self, given):
        _, overrides, number = given
        if number in self.died:
            raise self.RayError("The worker died unexpectedly.\n\tpid: 7")
        return (number, overrides)

    def shutdown(self):
        self.ended = True


@pytest.mark.parametrize("died", [(), (1,)])
def test_what_is_asked_of_ray_and_what_a_dead_worker_gives(died, monkeypatch):
    # A dead worker must not end the others' jobs, and must not pass for one that ended well.
    ray = PretendRay(died)
    monkeypatch.setitem(sys.modules, "ray", ray)
    launcher = RayLauncher("auto", num_cpus=2, num_gpus=1)
    jobs = [["eps=1"], ["eps=2"], ["eps=3"]]
    if died:
        with pytest.raises(RuntimeError, match=r"1 of 3 .* job 2: RayError: The worker died"):
            launcher.launch(jobs, 0)
    else:
        assert launcher.launch(jobs, 0) == [(0, jobs[0]), (1, jobs[1]), (2, jobs[2])]
    assert ray.address == "auto" and ray.ended
    assert ray.needs == {"max_retries": 0, "num_cpus": 2, "num_gpus": 1}
