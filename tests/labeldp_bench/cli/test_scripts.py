"""The files in scripts/: one way to spell arguments, one line for what is wrong."""

import importlib
import re
import runpy
import sys

import pytest

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import (
    finite_eps,
    output_file,
    read_arguments,
    some,
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
    # As `python scripts/name.py` has it: the script's folder, and not the checkout.
    rest = [path for path in sys.path if path not in ("", str(CHECKOUT))]
    monkeypatch.setattr(sys, "path", [str(CHECKOUT / "scripts"), *rest])
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    yield runpy.run_path(str(request.param)) | {"path": request.param}
    assert list(tmp_path.iterdir()) == []


def test_help_says_how_it_is_called(script, capsys):
    # `--help` was the name of a folder, or started an hour of work.
    assert script["main"](["mechanism=rr", "--help"]) == 0
    help_text = capsys.readouterr().out
    assert f"    python scripts/{script['path'].name}" in help_text
    assert " --" not in help_text  # keys are spelled as for a run


@pytest.mark.parametrize("wrong", ["quick", "--quick", "=1"])
def test_what_is_no_key_is_refused_in_one_line(script, wrong, capsys):
    # A misspelt argument would be ignored, and the work done for something else.
    assert script["main"]([wrong]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert wrong in line


def test_keys_of_a_script_and_axes_of_cells():
    own, axes = split_arguments(
        ["out=runs/eps=1/a.csv", "eps=1,2", "learner.fractions=[0.8,0.2]"], {"out": "", "known": ""}
    )
    assert own == {"out": "runs/eps=1/a.csv", "known": ""}
    assert axes == {"eps": ["1", "2"], "learner.fractions": ["[0.8,0.2]"]}


def test_a_key_that_nobody_reads_is_refused():
    with pytest.raises(InputError, match=r"unknown key budgte; keys: budget \(did you mean budget"):
        read_arguments(["budgte=quick"], {"budget": "paper"})
    with pytest.raises(InputError, match="takes no arguments, got 'budget=quick'"):
        read_arguments(["budget=quick"], {})
    with pytest.raises(InputError, match=r"unknown key knwon; .*seed \(did you mean known\?\)"):
        split_arguments(["knwon=0.1"], {"out": "", "known": ""})
    with pytest.raises(InputError, match="device=cpu has no effect here; keys: out"):
        split_arguments(["device=cpu"], {"out": ""})


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.stem)
def test_where_nothing_can_be_written_is_said_before_the_work(path, tmp_path, monkeypatch, capsys):
    # An hour of measurements would be lost to a typo.
    monkeypatch.chdir(tmp_path)
    # As `python scripts/name.py` has it: the script's folder, and not the checkout.
    rest = [path for path in sys.path if path not in ("", str(CHECKOUT))]
    monkeypatch.setattr(sys, "path", [str(CHECKOUT / "scripts"), *rest])
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "a_file").write_text("")
    main = runpy.run_path(str(path))["main"]
    own = ["out_dir=runs", "dataset=mnist"] if path.stem == "attack" else []
    for out in ("a_file/x/a.csv", ""):
        assert main([*own, f"out={out}"]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        assert re.match(f"error: out must be a f.* one can write to, got '{out}'", line)
    assert {each.name for each in tmp_path.rglob("*")} <= {"a_file", "runs"}


def test_a_folder_is_no_file_to_write(tmp_path):
    with pytest.raises(
        InputError, match=r"merge must be a file in .*\(something else has that name\)"
    ):
        output_file("merge", str(tmp_path))
    assert output_file("merge", str(tmp_path / "new" / "a.csv")).parent.is_dir()


def test_without_records_nothing_is_printed_or_drawn(monkeypatch, capsys):
    # Empty axes were drawn over the pictures.
    main = runpy.run_path(str(CHECKOUT / "scripts" / "reproduce_figures.py"))["main"]
    monkeypatch.setattr(collect, "read_committed", lambda: {})
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: there is no record in ")
    assert said.err.count("\n") == 1


def test_the_accountant_prints_no_table_of_a_damaged_file(tmp_path, capsys):
    # A head alone looked like a table of nothing.
    main = runpy.run_path(str(CHECKOUT / "scripts" / "accountant.py"))["main"]
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    assert main([f"records={tmp_path / 'bad.csv'}"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "is damaged" in said.err


def test_the_accountant_adds_up_deltas_too():
    # Hundreds of central records have delta=1e-5 each, and the table said eps alone.
    cost = runpy.run_path(str(CHECKOUT / "scripts" / "accountant.py"))["cost"]
    record = {"eps": 1.0, "eps_spent": 1.0, "delta": 1e-5}
    assert cost(record) == (1.0, 1e-5)
    assert cost(record | {"trials": 10}) == pytest.approx((10.0, 1e-4))
    assert cost({"eps": 1.0, "eps_spent": 10.0, "delta": 1e-4, "trials": 10}) == (10.0, 1e-4)


@pytest.mark.parametrize(
    "name, key",
    [
        ("benchmarks.streaming", "rows"),
        ("benchmarks.many_classes", "classes"),
        ("benchmarks.scale", "classes"),
        ("benchmarks.neighbours", "points"),
    ],
)
@pytest.mark.parametrize("text", ["", ","])
def test_a_list_of_nothing_is_refused(name, key, text, tmp_path, monkeypatch, capsys):
    # Some ended in a traceback after the head of their table, one drew nothing and said so nowhere.
    monkeypatch.chdir(tmp_path)
    assert importlib.import_module(name).main([f"{key}={text}"]) == 2
    said = capsys.readouterr()
    expected = f"error: {key} must be a value, or several with commas, got {text!r}\n"
    assert (said.out, said.err) == ("", expected)
    assert some(key, "a,b") == ["a", "b"]


@pytest.mark.parametrize("text", ["800", "1e-9", "inf", "nan", "a", "0"])
def test_an_eps_out_of_range_is_told_the_range(text, tmp_path, capsys):
    # 800 was told to be a number > 0, or a list such as [1,2,4]; inf was told to be written inf,
    # or audits at the default eps replaced results/audits, each with the claim inf.
    script = importlib.import_module("scripts.audit_end_to_end")
    assert script.main([f"eps={text}", f"out={tmp_path / 'new'}"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("error: eps must be a number >= 1e-05 and <= 700, got ")
    assert not list(tmp_path.iterdir())
    assert finite_eps("eps", "0.5") == 0.5


@pytest.mark.parametrize("text", ["", "abc", "0", "-5"])
def test_a_damaged_number_of_a_process_ends_none(text, tmp_path, monkeypatch, capsys):
    # A traceback; and 0 would have ended the processes of who asks.
    ray = importlib.import_module("scripts.cluster_ray")
    monkeypatch.setattr(ray.os, "killpg", lambda *_: pytest.fail("a process was ended"))
    (tmp_path / "pid").write_text(text)
    assert ray.main(["stop", f"folder={tmp_path}"]) == 2
    said = f"error: {tmp_path}/pid must hold the number of a process, got {text!r}\n"
    assert capsys.readouterr().err == said


def test_a_port_that_no_machine_has_is_refused(capsys):
    # Ray was started, and then a traceback left it running.
    assert importlib.import_module("scripts.cluster_ray").main(["start", "port=99999"]) == 2
    assert capsys.readouterr().err == "error: port must be in [1024, 65535], got 99999\n"


@pytest.mark.parametrize("argument", ["mechanism.size=3", "prior=[0.5,0.5]"])
def test_an_audit_of_the_histogram_reads_every_argument(argument, capsys):
    # It was ignored: the verdict was on something else than what was asked.
    main = importlib.import_module("scripts.audit").main
    assert main(["mechanism=histogram", "draws=1000", argument]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert argument.partition("=")[0] in said.err


@pytest.mark.parametrize("name", ["", "a_file/deeper"])
def test_data_goes_into_a_folder_that_was_named(name, tmp_path, monkeypatch, capsys):
    # Five data sets went into the current folder; below a file it was an error of a lock.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("")
    module = importlib.import_module("scripts.get_data")
    monkeypatch.setattr(module, "fetch", lambda *_: pytest.fail("it fetched"))
    assert module.main([f"data_dir={name}"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"error: data_dir must be a folder, got '{name}'")
    assert said.err.count("\n") == 1
