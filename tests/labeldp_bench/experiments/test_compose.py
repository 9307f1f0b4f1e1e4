"""Cells that share a composed config, against composing each of them by Hydra as a whole."""

import os
import subprocess
import sys

import pytest
from omegaconf import OmegaConf, open_dict

from labeldp_bench.cli.errors import USER_ERRORS, one_line
from labeldp_bench.experiments.compose import (
    cell_of,
    compose,
    compose_cell,
    compose_whole,
    experiment_names,
)
from labeldp_bench.experiments.experiment import read_experiment
from tests.spelling import expand

OWN = (
    ["dataset=cifar10", "mechanism=lp_2st", "stages=halves", "budget=quick", "seed=3"],
    ["dataset=cifar10", "pretrain=cifar100", "trainer@pretrain.trainer=half_hour", "model=cnn"],
    ["dataset=mnist", "trainer.optimizer.lr=0.5", "+trainer.views=1", "eps=inf"],
    ["dataset.sigma=2/K", "model.k=7", "dataset.num_classes=7", "eps=.5", "noise=secret"],
    ["mechanism=rr", "tuning=held_out_releases", "dataset=mnist", "tuning.averages=[none]"],
)
REFUSED = "mechanism=nobody nothing=rr trainer@nowhere=half_hour mechanism=rr,rappor model=[cnn"
REFUSED += " model.nothing=1 eps=abc budget=nobody eps=null trainer.epochs.deeper=1 noise=hidden"


def check(overrides):
    config = compose_whole(overrides)
    choices = dict(config.hydra.runtime.choices)
    with open_dict(config):
        del config["hydra"]
    cell, whole = compose_cell(overrides), cell_of(config, choices)
    assert cell == whole, overrides
    assert list(cell.config) == list(whole.config) and cell.identity == whole.identity


@pytest.mark.parametrize("overrides", OWN, ids=" ".join)
def test_a_cell_is_what_hydra_composes(overrides):
    # A cell of an experiment would be another than the same words on a command line.
    check(overrides)


def test_cells_of_experiments_are_what_hydra_composes():
    # By Hydra a cell takes a tenth of a second, and there are 11,000: a sample.
    for name in experiment_names()[::7]:
        for overrides in expand(read_experiment(name).blocks or [], {})[41::397]:
            check(overrides)


@pytest.mark.parametrize("override", REFUSED.split())
def test_what_hydra_refuses_is_refused_in_its_words(override):
    # A wrong value in an experiment would pass, or be told without the key.
    with pytest.raises(USER_ERRORS) as expected:
        cell_of(*compose([override]))
    with pytest.raises(USER_ERRORS) as refused:
        compose_cell([override])
    assert one_line(refused.value) == one_line(expected.value)


def test_what_one_caller_changes_the_next_does_not_see():
    config, _ = compose(["dataset=mnist"])
    OmegaConf.update(config, "dataset", None)
    assert compose_cell(["dataset=mnist"]).dataset_name == "mnist"


def test_what_was_composed_is_kept_between_programs(tmp_path):
    program = (
        "import labeldp_bench.experiments.compose as c, sys\n"
        "if sys.argv[1:]: c.hydra.compose = None\n"
        "print(c.compose_cell(['dataset=mnist', 'mechanism=rr', 'eps=2', 'seed=3']).config)"
    )

    def printed(*arguments):
        command = [sys.executable, "-c", program, *arguments]
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    expected = compose_cell(["dataset=mnist", "mechanism=rr", "eps=2", "seed=3"]).config
    assert printed() == printed("without Hydra") == f"{expected}\n"
    (kept,) = tmp_path.rglob("*.sqlite")
    kept.write_bytes(b"damaged")
    assert printed() == f"{expected}\n"
