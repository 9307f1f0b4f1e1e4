"""A sweep on a launcher gives the records of a sweep in one process."""

import importlib.util
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import TINY_CIRCLE
from tests.shell import HANGS, quick, records_under, start

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
