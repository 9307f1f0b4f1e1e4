"""Habits that a reader relies on: one version, no machine's paths, docstrings, sound YAML."""

import ast
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

import labeldp
import labeldp_bench
import papers
from labeldp_bench.experiments.compose import compose, compose_cell
from labeldp_bench.experiments.experiment import Experiment, read_experiment
from tests.conftest import CHECKOUT
from tests.spelling import expand

# Spelled in parts: this file is tracked too.
MACHINE = ["/wo" + "rk/", "/ro" + "ot/", "/t" + "mp/[a-z]", "/fa" + "rm/", r"pypi\.o" + "rg"]
MACHINE += ["pythonho" + "sted", r"registry\.npm" + "js", r"deb\.deb" + "ian"]
MACHINE = "|".join(MACHINE)
MODULES = [
    module.name
    for package in (labeldp, labeldp_bench, papers)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")
]
GRIDS = sorted(
    path.relative_to(CHECKOUT / "configs")
    for folder in ("experiment", "sweep")
    for path in (CHECKOUT / "configs" / folder).rglob("*.yaml")
)


def tracked() -> list[str]:
    line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(line, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (CHECKOUT / name).is_file()]


def test_version_stands_in_one_place():
    # Two places would disagree after the next release.
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    sources = [name for name in tracked() if name.endswith(".py") and not name.startswith("tests")]
    literal = re.compile(rf"""["']{re.escape(version)}["']""")
    assert [name for name in sources if literal.search((CHECKOUT / name).read_text())] == []
    citation = CHECKOUT / "CITATION.cff"
    if citation.is_file():
        assert str(yaml.safe_load(citation.read_text())["version"]) == version


def test_no_tracked_file_names_this_machine():
    # A stranger's clone would point at folders and hosts that they do not have.
    found = []
    for name in tracked():
        try:
            text = (CHECKOUT / name).read_text()
        except UnicodeDecodeError:
            continue
        text = re.sub("base64,[A-Za-z0-9+/=]+", "", text)  # pictures inside a page
        hit = None if name.endswith(".lock") else re.search(MACHINE, text)
        found += [f"{name}: {text[max(0, hit.start() - 80) : hit.end()]}"] if hit else []
    assert found == []


@pytest.mark.parametrize("path", GRIDS, ids=str)
def test_every_grid_expands_to_cells(path):
    # The command behind a published table would fail on its first cell, or on its last.
    group, _, name = path.with_suffix("").as_posix().partition("/")
    if group == "experiment":
        found = read_experiment(name)
    else:
        found = Experiment.of(name, compose([f"{group}={name}"])[0])
    if found.blocks is None:
        assert found.table, "neither cells nor a table of another kind"
        return
    spelled = expand(found.blocks, {})
    assert spelled
    # Every block's first and last cell; all would take minutes for the large tables.
    chosen = {str(overrides): overrides for overrides in (*spelled[:2], *spelled[-2:])}
    cells = {compose_cell(overrides).config_hash for overrides in chosen.values()}
    assert len(cells) == len(chosen)
    assert len({str(overrides) for overrides in spelled}) == len(spelled)


def test_what_says_that_it_imports_no_torch_imports_none():
    # Three modules said so and did: tables of records waited seconds for it.
    light = []
    for path in sorted(CHECKOUT.glob("[lp]*/**/*.py")):
        said = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
        if re.search("mports no torch|mports nothing heavy", said):
            module = path.relative_to(CHECKOUT).with_suffix("")
            light.append(".".join(module.parts).removesuffix(".__init__"))
    assert light
    told = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    told += "    assert 'torch' not in sys.modules, name"
    outcome = subprocess.run([sys.executable, "-c", told, *light], cwd=CHECKOUT, check=False)
    assert outcome.returncode == 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    # The documentation would show numbers that the code does not give.
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
