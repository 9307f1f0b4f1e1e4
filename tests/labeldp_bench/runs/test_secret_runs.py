"""Runs with secret noise: nothing in what they leave repeats it."""

import json
from pathlib import Path

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from labeldp_bench.runs.run import open_store
from tests.conftest import TINY_CIRCLE


def run(overrides, folder, data="data"):
    """The record of a cell, and why it failed."""
    cell, errors = compose_cell(overrides), []
    environment = Environment(folder, Path(data), torch.device("cpu"))
    run_cells([cell], environment, lambda cell, where, error: errors.append(str(error)))
    path = folder / cell.folder / "record.json"
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
    (one, failed), (other, _) = (run(overrides, tmp_path / name) for name in ("a", "b"))
    assert failed == []
    assert one["noise"] == one["identity"]["noise"] == "secret"
    first_trials = stores[0], stores[len(stores) // 2]
    drawn, again = (store.releases[-1].outputs for store in first_trials)
    assert drawn.shape == again.shape and not torch.equal(drawn, again)
    assert one["config_hash"] == other["config_hash"] and one["seed"] == 0
    seeded, errors = run(overrides[:-1], tmp_path / "c")
    assert errors == []
    assert seeded["noise"] == "seeded" and seeded["config_hash"] != one["config_hash"]


def test_enhancement_is_not_called_secret(tiny_network, tiny_images, tmp_path):
    # Its random labels follow from the seed.
    _, errors = run([*tiny_network, "mechanism=ple", "noise=secret"], tmp_path / "a", tiny_images)
    assert errors and errors[0].startswith("noise=secret protects nothing here: mechanism=ple")
