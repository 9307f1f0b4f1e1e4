"""A sweep on a launcher gives the records of a sweep in one process."""

import importlib.util
import os
import shutil
import sys
import types
from pathlib import Path

import pytest

from labeldp_bench.cli.launch import Job, launch
from tests.conftest import TINY_CIRCLE
from tests.shell import HANGS, quick, records_under, start, untimed

SUBMITIT = importlib.util.find_spec("submitit") is not None
RAY = importlib.util.find_spec("ray") is not None
FOUR = ["-m", *TINY_CIRCLE, "mechanism=rr,rappor", "seed=0,1"]
SLURM = ["partition=main", "mem_gb=2", "cpus_per_task=1", "timeout_min=10", "array_parallelism=2"]
SLURM = ["hydra/launcher=submitit_slurm", *(f"hydra.launcher.{text}" for text in SLURM)]


def records(folder: Path) -> dict[Path, dict]:
    """Returns what the records under a folder say, times left out."""
    return {path.relative_to(folder): untimed(path) for path in records_under(folder)}


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
    same_as_in_one_process(["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"], tmp_path)


@pytest.mark.skipif(not SUBMITIT, reason="needs pip install 'labeldp-bench[slurm]'")
@pytest.mark.parametrize("cluster", ["slurm", "local"])
def test_slurm(cluster, tmp_path):
    # A cluster would be the first to try it; `local` runs the same without one.
    if cluster == "slurm" and (shutil.which("sbatch") is None or "SLURM_CONF" not in os.environ):
        pytest.skip("no Slurm is running (see scripts/cluster_slurm.py)")
    same_as_in_one_process([*SLURM, f"hydra.launcher.cluster={cluster}"], tmp_path)


def test_ray(tmp_path):
    # Who has a Ray cluster would be the first to try it. RAY_ADDRESS names one, else one starts.
    if not RAY:
        pytest.skip("ray is not installed (pip install 'labeldp-bench[ray]')")
    same_as_in_one_process(["hydra/launcher=ray"], tmp_path)


@pytest.mark.parametrize(("name", "extra"), [("ray", "ray"), ("submitit_slurm", "slurm")])
def test_a_launcher_that_is_not_installed_is_one_line(name, extra, tmp_path):
    if {"ray": RAY, "slurm": SUBMITIT}[extra]:
        pytest.skip(f"{name} is installed")
    outcome = quick([*FOUR, f"hydra/launcher={name}"], tmp_path)
    [error] = outcome.stderr.splitlines()
    assert outcome.returncode == 2
    assert f"hydra/launcher={name} needs" in error and f"labeldp-bench[{extra}]" in error


class PretendRay(types.ModuleType):
    """Ray, as far as the launcher asks for it; workers of chosen jobs die."""

    class RayError(Exception):
        """The root of what Ray raises."""

    def __init__(self, died):
        super().__init__("ray")
        self.died, self.exceptions, self.ended = died, self, False

    def init(self, address, **settings):
        self.address = address

    def remote(self, **needs):
        self.needs = needs
        return lambda function: types.SimpleNamespace(remote=lambda job, folder: job)

    def get(self, job):
        if job.number in self.died:
            raise self.RayError("The worker died unexpectedly.\n\tpid: 7")
        return job.number

    def shutdown(self):
        self.ended = True


@pytest.mark.parametrize("died", [(), (2,)])
def test_what_is_asked_of_ray_and_what_a_dead_worker_gives(died, monkeypatch, capsys):
    # A dead worker must not end the others' jobs, and must not pass for one that ended well.
    ray = PretendRay(died)
    monkeypatch.setitem(sys.modules, "ray", ray)
    jobs = [Job([], {}, number=number) for number in (1, 2, 3)]
    settings = {"address": "auto", "num_cpus": 2, "num_gpus": 1}
    assert launch(jobs, "ray", settings, Path()) == ((0, False) if died else (6, True))
    said = capsys.readouterr().err
    assert ("1 of 3 jobs died; job 2: RayError: The worker died" in said) == bool(died)
    assert ray.address == "auto" and ray.ended
    assert ray.needs == {"max_retries": 0, "num_cpus": 2, "num_gpus": 1}
