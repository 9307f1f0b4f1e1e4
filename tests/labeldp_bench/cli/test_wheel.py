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

PIP = ("pip", "--quiet", "--disable-pip-version-check")
PYTHON_313 = "python3.13"
COMPOSE = """
import sys
from pathlib import Path
from labeldp_bench.experiments.compose import compose

configs = Path(sys.argv[1])
composed = 0
for path in sorted(configs.rglob("*.yaml")):
    group, *name = path.relative_to(configs).with_suffix("").parts
    if group == "hydra":
        group, name = f"hydra/{name[0]}", name[1:]
    compose([f"{group}={'/'.join(name)}"] if name else [])
    composed += 1
assert "torch" not in sys.modules, "composing imports torch"
print(composed)
"""


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, timeout=HANGS,
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LABELDP_DATA")}
        | {"OMP_NUM_THREADS": "1"} | environment,
    )  # fmt: skip


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
    built = run(
        sys.executable, "-m", *PIP, "wheel", ".", "--no-deps", "--no-build-isolation",
        "--wheel-dir", folder, folder=source,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return next(folder.glob("labeldp_bench-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder with the wheel's content and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    outcome = run(
        sys.executable, "-m", *PIP, "install", "--no-deps", "--target", folder, wheel,
        folder=folder,
    )  # fmt: skip
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
    where = run(
        sys.executable, "-c", "import labeldp_bench; print(labeldp_bench.__file__)",
        folder=tmp_path, PYTHONPATH=str(installed),
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(installed)
    outcome = run(
        installed / "bin" / "labeldp-bench", *TINY_CIRCLE, "-m", folder=tmp_path,
        PYTHONPATH=str(installed),
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stderr
    assert len(records_under(tmp_path)) == 1
    assert list((tmp_path / "results" / "runs" / "sweeps").glob("sweep-*.png"))
    after = {path for path in installed.rglob("*") if path.suffix != ".pyc"}
    assert {path for path in after - before if path.name != "__pycache__"} == set()


def test_every_config_composes_without_torch(installed, tmp_path):
    # A wrong override would wait seconds for torch, other Pythons could not be checked, and an
    # experiment's cells would be others than the same words on a command line spell.
    configs = installed / "labeldp_bench" / "configs"
    outcome = run(
        sys.executable, "-c", COMPOSE, configs, folder=tmp_path, PYTHONPATH=str(installed)
    )
    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) == len(list(configs.rglob("*.yaml")))


def test_python_313_compiles_and_composes(installed, tmp_path):
    # A Python that pyproject.toml allows could not even read the package.
    python = shutil.which(PYTHON_313)
    if python is None or run(python, "-c", "", folder=tmp_path).returncode:
        pytest.skip(f"no working {PYTHON_313} here")
    run(python, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    hydra = run(
        python, "-m", *PIP, "install", "hydra-core>=1.3.2,<1.4", "omegaconf>=2.3,<2.4",
        folder=tmp_path,
    )  # fmt: skip
    if hydra.returncode:
        pytest.skip(f"hydra-core cannot be installed: {hydra.stderr.strip().splitlines()[-1]}")
    package = tmp_path / "package"
    for name in ("labeldp", "labeldp_bench"):
        shutil.copytree(
            installed / name, package / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    compiled = run(python, "-W", "error", "-m", "compileall", "-q", package, folder=tmp_path)
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr
    configs = package / "labeldp_bench" / "configs"
    outcome = run(python, "-c", COMPOSE, configs, folder=tmp_path, PYTHONPATH=str(package))
    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) == len(list(configs.rglob("*.yaml")))
