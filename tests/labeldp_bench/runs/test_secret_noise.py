"""Runs with secret noise."""

import json

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.runs.run import open_store
from tests.conftest import TINY_CIRCLE


def environment(folder, data):
    return Environment(folder, data, torch.device("cpu"))


def record(cell, where):
    """The record of a run, and why it failed."""
    errors = []
    run_cells([cell], where, lambda cell, folder, error: errors.append(str(error)))
    path = where.out_dir / cell.folder / "record.json"
    return json.loads(path.read_text()) if path.is_file() else None, errors


@pytest.mark.parametrize("mechanism", ["rappor", "lp_2st", "blockrr"])
def test_the_record_says_secret_and_the_releases_differ_from_run_to_run(
    mechanism, tmp_path, monkeypatch
):
    # A run that says secret and draws from its seed would be undone by anybody.
    stores = []

    def open_and_keep(*arguments):
        stores.append(open_store(*arguments))
        return stores[-1]

    monkeypatch.setattr("labeldp_bench.runs.run.open_store", open_and_keep)
    overrides = [*TINY_CIRCLE, f"mechanism={mechanism}", "noise=secret"]
    cell = compose_cell(overrides)
    where = [environment(tmp_path / name, tmp_path) for name in ("a", "b", "c")]
    (one, failed), (other, _) = (record(cell, each) for each in where[:2])
    assert failed == []
    assert one["noise"] == one["identity"]["noise"] == "secret"
    first_trials = stores[0], stores[len(stores) // 2]
    drawn, again = (store.releases[-1].outputs for store in first_trials)
    assert drawn.shape == again.shape and not torch.equal(drawn, again)
    assert one["config_hash"] == other["config_hash"] and one["seed"] == 0
    seeded, errors = record(compose_cell(overrides[:-1]), where[2])
    assert errors == []
    assert seeded["noise"] == "seeded" and seeded["config_hash"] != one["config_hash"]


def test_enhancement_is_not_called_secret(tiny_network, tiny_images, tmp_path):
    # Its random labels follow from the seed.
    cell = compose_cell([*tiny_network, "mechanism=ple", "noise=secret"])
    _, errors = record(cell, environment(tmp_path / "a", tiny_images))
    assert errors and errors[0].startswith("noise=secret protects nothing here: mechanism=ple")
