"""`--help`: every choice is listed, and shown as its YAML has it."""

import re
import shlex
import subprocess
import sys

import pytest

from labeldp_bench.cli.help import first_sentence, help_text, scalar_keys
from labeldp_bench.experiments.compose import CHOICES, RunConfig, choices_of, compose_cell
from tests.shell import quick


def test_plain_help_lists_every_choice_and_key_without_torch():
    # A second for torch before a line of help.
    code = (
        "import sys; from labeldp_bench.cli.help import help_text; print(help_text([])); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for group in CHOICES:
        assert re.search(rf"^{group}: \w", done.stdout, re.MULTILINE)
        assert all(f"\n  {name} " in done.stdout for name in choices_of(group))
    shown = RunConfig.__dataclass_fields__.keys() - {*CHOICES, "cells", "table", "job"}
    assert scalar_keys().keys() == shown
    assert all(f"\n  {name} " in done.stdout for name in shown)


@pytest.mark.parametrize("group", CHOICES)
def test_each_choice_shows_its_yaml_and_its_classes(group):
    for name, path in choices_of(group).items():
        # A user would read a name and no meaning: write a comment at the top of the YAML.
        assert len(first_sentence(path)) >= 20, path
        yaml = path.read_text(encoding="utf-8")
        page = help_text(["--help", f"{group}={name}"])
        assert yaml.strip() in page and "can be imported" not in page
        # The example in a YAML would end in an error, or show another choice.
        for example in re.findall(r"^# Example: (.*)$", yaml, re.MULTILINE):
            assert f"{group}={name}" in shlex.split(example)
            assert compose_cell(shlex.split(example)).build()


def test_an_unknown_name_is_told_the_nearest(tmp_path):
    for word, near in (("mechnism", "mechanism"), ("mechanism=rapor", "rappor")):
        outcome = quick(["--help", word], tmp_path)
        assert outcome.returncode == 2 and len(outcome.lines) == 1
        assert f"did you mean {near}?" in outcome.stderr


@pytest.mark.parametrize("target", ["labeldp.mechanisms.Rappor", "unfinished.M"])
def test_own_configs_are_shown_also_with_a_class_that_is_not_there(target, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "unfinished.py").write_text("class M(:\n")
    (tmp_path / "mechanism").mkdir()
    yaml = f"# @package _global_\n# My own.\nmechanism:\n  _target_: {target}\n"
    (tmp_path / "mechanism" / "mine.yaml").write_text(yaml)
    page = help_text(["--config-dir", str(tmp_path), "--help", "mechanism=mine"])
    assert yaml in page
    assert ("Flips every bit" in page) == target.endswith("Rappor")
    assert "mine " in help_text(["--config-dir", str(tmp_path), "--help", "mechanism"])
