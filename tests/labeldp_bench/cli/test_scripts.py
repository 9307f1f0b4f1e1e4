"""The files in scripts/: one way to spell arguments, one line for what is wrong."""

import importlib
import re
import runpy

import pytest

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import (
    read_arguments,
    split_arguments,
)
from labeldp_bench.records import collect
from tests.conftest import CHECKOUT

SCRIPTS = sorted((CHECKOUT / "scripts").glob("*.py"))
WRITERS = [path for path in SCRIPTS if '"out":' in path.read_text()]


@pytest.fixture(params=SCRIPTS, ids=lambda path: path.stem)
def script(request, tmp_path, monkeypatch):
    """The names in one script; what it writes into its folder would be seen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(CHECKOUT / "scripts")  # as `python scripts/name.py` has it
    yield runpy.run_path(str(request.param)) | {"path": request.param}
    assert list(tmp_path.iterdir()) == []


def test_help_says_how_it_is_called(script, capsys):
    # `--help` was the name of a folder, or started an hour of work.
    assert script["main"](["mechanism=rr", "--help"]) == 0
    help_text = capsys.readouterr().out
    assert f"    python scripts/{script['path'].name}" in help_text
    assert " --" not in help_text  # keys are spelled as for a run


def test_what_is_no_key_is_refused_in_one_line(script, capsys):
    # A misspelt argument would be ignored, and the work done for something else.
    for wrong in ("quick", "--quick", "=1"):
        assert script["main"]([wrong]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and wrong in line


def test_a_key_that_nobody_reads_is_refused():
    with pytest.raises(InputError, match=r"budgte.*budget"):
        read_arguments(["budgte=quick"], {"budget": "paper"})
    with pytest.raises(InputError, match="budget=quick"):
        read_arguments(["budget=quick"], {})
    with pytest.raises(InputError, match=r"knwon.*known\?"):
        split_arguments(["knwon=0.1"], {"out": "", "known": ""})
    with pytest.raises(InputError, match=r"device=cpu.*out"):
        split_arguments(["device=cpu"], {"out": ""})


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.stem)
def test_where_nothing_can_be_written_is_said_before_the_work(path, tmp_path, monkeypatch, capsys):
    # An hour of measurements would be lost to a typo.
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(CHECKOUT / "scripts")
    (tmp_path / "a_file").write_text("")
    main = runpy.run_path(str(path))["main"]
    own = ["out_dir=runs", "dataset=mnist"] if path.stem == "attack" else []
    for out in ("a_file/x/a.csv", ""):
        assert main([*own, f"out={out}"]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        assert re.match(f"error: out .*'{out}'", line)
    assert {each.name for each in tmp_path.rglob("*")} <= {"a_file", "runs"}


def test_without_records_nothing_is_printed_or_drawn(monkeypatch, capsys):
    # Empty axes were drawn over the pictures.
    main = runpy.run_path(str(CHECKOUT / "scripts" / "reproduce_figures.py"))["main"]
    monkeypatch.setattr(collect, "read_committed", lambda: {})
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: there is no record in ")


def test_the_accountant_adds_up_deltas_too():
    # Hundreds of central records have delta=1e-5 each, and the table said eps alone.
    cost = runpy.run_path(str(CHECKOUT / "scripts" / "accountant.py"))["cost"]
    record = {"eps": 1.0, "eps_spent": 1.0, "delta": 1e-5}
    assert cost(record) == (1.0, 1e-5)
    assert cost(record | {"trials": 10}) == pytest.approx((10.0, 1e-4))
    assert cost({"eps": 1.0, "eps_spent": 10.0, "delta": 1e-4, "trials": 10}) == (10.0, 1e-4)


def refusal(script, arguments, capsys):
    """The only line that a script prints for arguments that it refuses."""
    assert importlib.import_module(script).main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    ("script", "argument", "named"),
    [
        ("benchmarks.scale", "classes=", "classes.* ''"),
        ("benchmarks.scale", "classes=,", "classes.* ','"),
        ("scripts.audit_end_to_end", "eps=800", "eps.* 700.* 800"),
        ("scripts.audit_end_to_end", "eps=inf", "eps.* 700.* inf"),
        ("scripts.audit_end_to_end", "eps=a", "eps.* 700.* 'a'"),
        # Each was ignored: the verdict was on something else than what was asked.
        ("scripts.audit", "mechanism=histogram draws=1000 mechanism.size=3", "mechanism.size"),
        ("scripts.audit", "mechanism=histogram draws=1000 prior=[0.5,0.5]", "prior"),
        # Five data sets went into the current folder; below a file it was an error of a lock.
        ("scripts.get_data", "data_dir=", "data_dir.* ''"),
        ("scripts.get_data", "data_dir=a_file/x", "data_dir.* 'a_file/x'"),
    ],
)
def test_a_bad_value_is_one_line(script, argument, named, tmp_path, monkeypatch, capsys):
    # Some ended in a traceback after the head of their table, one drew nothing and said nothing.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("")
    assert re.search(named, refusal(script, argument.split(), capsys))
    assert [path.name for path in tmp_path.iterdir()] == ["a_file"]


def test_a_script_writes_into_no_other_checkout(tmp_path, capsys):
    # The tables of the checkout that made the environment were overwritten without a word.
    path = tmp_path / "collect.py"
    path.write_text((CHECKOUT / "scripts" / "collect.py").read_text())
    assert runpy.run_path(str(path))["main"]([]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert str(path) in line and str(CHECKOUT) in line and "make install" in line
