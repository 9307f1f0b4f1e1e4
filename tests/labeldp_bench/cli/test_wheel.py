"""The built wheel: it carries its configs and works where there is no checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT, TINY_CIRCLE
from tests.shell import HANGS, records_under

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LABELDP_DATA")}
    own = {"cwd": folder, "env": kept | {"OMP_NUM_THREADS": "1"} | environment}
    line = [str(part) for part in command]
    return subprocess.run(line, **own, capture_output=True, text=True, timeout=HANGS)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy, so that no build folder is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("labeldp", "labeldp_bench", "configs"):
        shutil.copytree(CHECKOUT / name, source / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source / name)
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    built = run(*PIP, "wheel", ".", *options, folder=source)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("labeldp_bench-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder with the wheel's content and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    outcome = run(*PIP, "install", "--no-deps", "--target", folder, wheel, folder=folder)
    assert outcome.returncode == 0, outcome.stderr
    return folder


def test_wheel_carries_every_module_and_config(wheel):
    # Installed users would get an import error, or `mechanism must be one of ...` without a name.
    names = set(zipfile.ZipFile(wheel).namelist())
    yaml = {
        f"labeldp_bench/{path.relative_to(CHECKOUT)}"
        for path in (CHECKOUT / "configs").rglob("*.yaml")
    }
    modules = {
        str(path.relative_to(CHECKOUT))
        for name in ("labeldp", "labeldp_bench")
        for path in (CHECKOUT / name).rglob("*.py")
    }
    data = {"labeldp_bench/experiments/reference_values.json"}
    assert not yaml - names
    assert not modules - names
    assert not data - names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"labeldp", "labeldp_bench"}


def test_console_script_works_from_an_empty_folder(installed, tmp_path):
    # Outside a checkout the command would find no configs, or write beside the package.
    before = {path for path in installed.rglob("*") if path.suffix != ".pyc"}
    assert (installed / "bin" / "labeldp").is_file()
    own = {"folder": tmp_path, "PYTHONPATH": str(installed)}
    where = run(sys.executable, "-c", "import labeldp_bench as x; print(x.__file__)", **own)
    assert Path(where.stdout.strip()).is_relative_to(installed)
    outcome = run(installed / "bin" / "labeldp-bench", *TINY_CIRCLE, "-m", **own)
    assert outcome.returncode == 0, outcome.stderr
    assert len(records_under(tmp_path)) == 1
    assert list((tmp_path / "results" / "runs" / "sweeps").glob("sweep-*.png"))
    after = {path for path in installed.rglob("*") if path.suffix != ".pyc"}
    assert {path for path in after - before if path.name != "__pycache__"} == set()
