"""`--help`: every name has its meaning, in a moment."""

import re
import shlex
import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from labeldp.losses import LOSSES
from labeldp.support.validate import InputError
from labeldp_bench.cli.help import help_text
from labeldp_bench.cli.help_configs import (
    choices_of,
    composed,
    first_sentence,
    group_meanings,
    header,
    target_of,
)
from labeldp_bench.cli.help_examples import example
from labeldp_bench.cli.help_keys import group_keys, losses, scalar_keys
from labeldp_bench.cli.help_mechanisms import (
    claim,
    delta_of,
    guarantee,
    kind_of_release,
    learner_class,
    mechanism_class,
)
from labeldp_bench.experiments.compose import CHOICES, compose_cell, mechanism_names
from tests.shell import quick

KEYED = ("dataset", "mechanism", "learner", "model", "trainer", "pretrain")


def test_every_group_and_choice_has_a_line():
    # A user would read a name and no meaning: write a comment at the top of the YAML.
    assert [group for group, text in group_meanings().items() if not text] == []
    silent = [
        f"{group}={name}"
        for group in CHOICES
        for name, path in choices_of(group).items()
        if len(first_sentence(header(path))) < 20
    ]
    assert silent == [], silent


def test_help_begins_with_how_a_command_is_written():
    # It began with "One run, one record", which says nothing to somebody who knows no Hydra.
    opening = " ".join(help_text(["--help"]).split("\n\n")[0].split())
    assert "written as group=choice and key=value; whatever is left out keeps" in opening
    meanings = group_meanings()
    # `budget` is a group of its own, about epochs; `sweep` spoke of budgets and meant eps.
    sweeps = [meanings["sweep"], *(header(path) for path in choices_of("sweep").values())]
    assert all("values of eps" in text and "budget" not in text for text in sweeps)
    # A line of its own: "with what, and how long" and "whose features" had no beginning.
    assert not [text for text in meanings.values() if text.startswith(("of ", "whose "))]


def test_every_key_has_a_line():
    # The same of a key: write it under Args of its class, or of RunConfig.
    config, _ = composed([], None)
    keys = {"": scalar_keys(config)}
    for group in KEYED:
        for name, path in choices_of(group).items():
            node = OmegaConf.to_container(OmegaConf.load(path)) or {}
            node = node.get("mechanism", {}) if group == "mechanism" else node
            node = {key: value for key, value in node.items() if key != "defaults"}
            target = {"_target_": target_of(path, "mechanism" if group == "mechanism" else "")}
            keys[f"{group}={name}"] = group_keys(group, {group: target | node}, {})
    assert sum(map(len, keys.values())) > 300
    silent = [f"{of} {key.name}" for of, own in keys.items() for key in own if not key.meaning]
    assert silent == [], silent


def test_losses_are_those_that_learner_loss_takes():
    # Help would name a loss that does not exist, or leave one out.
    assert losses().keys() == LOSSES.keys()
    assert all(len(text) > 20 for text in losses().values())


@pytest.mark.parametrize("name", mechanism_names())
def test_what_is_said_of_a_mechanism_is_what_it_is(name):
    # Help would promise a privacy that the class does not claim; its example would be refused.
    cell = compose_cell(example("mechanism", name).split())
    built = cell.build().mechanism
    stand_in = mechanism_class(choices_of("mechanism")[name])
    assert stand_in.__name__ == type(built).__name__
    learner = cell.build().learner
    promised = guarantee(stand_in, learner_class(choices_of("mechanism")[name]))
    curated = "central" in (built.trust, learner.trust)
    trust = "none" if not built.private else "central" if curated else "local"
    assert promised.partition(",")[0] == trust
    assert ("features" in promised) == ("features" in built.protects)
    assert ("delta" in promised) == (built.delta > 0) and delta_of(stand_in) == built.delta
    page = " ".join(help_text(["--help", f"mechanism={name}"]).split())
    wording = f"(eps, delta)-DP with delta={built.delta:g}" if built.delta else "pure eps-DP"
    assert f"guarantee {'none' if trust == 'none' else f'{wording}, {trust}'}" in page
    assert claim(stand_in) and "Source:" not in claim(stand_in)
    assert kind_of_release(stand_in) != "a vector" or name == "ple"


@pytest.mark.parametrize("group", [*KEYED, "views", "encoder", "stages", "tuning"])
def test_every_example_has_its_choice_and_can_be_built(group):
    # The last line of a help page would end in an error, or show another choice.
    for name in choices_of(group):
        overrides = shlex.split(example(group, name))
        assert f"{group}={name}" in overrides
        assert compose_cell(overrides).build(), name


def test_help_is_quick_and_complete():
    # A second for torch before a line of help.
    code = (
        "import sys; from labeldp_bench.cli.help import help_text; print(help_text([])); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for group in CHOICES:
        assert all(f"\n  {name} " in done.stdout for name in choices_of(group))
    assert "python -m labeldp_bench -m mechanism=" in done.stdout and "Hydra" not in done.stdout
    assert " submit-check FILE " in done.stdout


def test_pages_of_one_group_choice_and_key():
    # The three questions a user has.
    assert "subset_selection         K bits         local" in help_text(["--help", "mechanism"])
    page = help_text(["--help", "mechanism=lp_2st", "dataset=mnist"])
    assert "guarantee  pure eps-DP, local: each" in page and "Ghazi et al. (2021)" in page
    assert "learner.fractions" in page and "dataset.limit_train" in page
    assert "passes over the training set" in help_text(["--help", "trainer.epochs"])
    assert help_text(["--help", "rappor"]) == help_text(["--help", "mechanism=rappor"])
    assert "245 cells" in help_text(["-h", "experiment=vector_approximation/table1a"])
    assert "trainer.epochs<=2" in help_text(["-h", "budget=quick"])


@pytest.mark.parametrize(
    ("word", "near"),
    [("rapor", "rappor"), ("mechanism=rapor", "rappor"), ("trainer.epoch", "trainer.epochs"),
     ("mechnism", "mechanism")],
)  # fmt: skip
def test_unknown_names_are_told_the_nearest(word, near):
    # A typo would show nothing, or a traceback.
    with pytest.raises(InputError, match=rf"did you mean {near}\?") as caught:
        help_text(["--help", word])
    assert "\n" not in str(caught.value)


def test_help_on_the_command_line(tmp_path):
    # The texts would be right and nobody shown them; a wrong word would end with exit code 0.
    outcome = quick(["--help", "mechanism=rappor", "eps"], tmp_path)
    assert outcome.returncode == 0 and "privacy budget" in outcome.stdout
    assert list(tmp_path.iterdir()) == []
    bad = quick(["--help", "nothing_like_it"], tmp_path)
    assert bad.returncode == 2 and len(bad.lines) == 1


@pytest.mark.parametrize(
    "target", ["rr.Misspelt", "no_such_file.Mine", "unfinished.Mine", "randomized_response.math"]
)
def test_nothing_is_promised_of_a_mechanism_that_is_not_found(target, tmp_path, monkeypatch):
    # A misspelt _target_ was called pure eps-DP, and a file that is no Python was a traceback.
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "unfinished.py").write_text("class Mine(:\n")
    (tmp_path / "mechanism").mkdir()
    module = "" if target.startswith("unfinished") else "labeldp.mechanisms."
    (tmp_path / "mechanism" / "mine.yaml").write_text(
        "# @package _global_\n# My own.\nmechanism:\n"
        f"  _target_: {module}{target}\n  eps: ${{eps}}\n"
    )
    page = help_text(["--config-dir", str(tmp_path), "--help", "mechanism=mine"])
    assert "guarantee  unknown: the _target_ of its YAML names no mechanism" in page
    table = help_text(["--config-dir", str(tmp_path), "--help", "mechanism"])
    assert re.search(r"mine +unknown +unknown +My own", table)


def test_own_configs_are_listed_too(tmp_path):
    # Who keeps parts outside of the package would not find them.
    (tmp_path / "mechanism").mkdir()
    (tmp_path / "mechanism" / "lie.yaml").write_text(
        "# @package _global_\n# My own randomiser of labels.\nmechanism:\n"
        "  _target_: labeldp.mechanisms.Rappor\n  eps: ${eps}\n"
    )
    page = help_text(["--config-dir", str(tmp_path), "--help", "mechanism=lie"])
    assert "My own randomiser" in page and "Flips every bit" in page
