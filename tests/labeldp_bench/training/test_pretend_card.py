"""Runs on a pretend GPU: they end as on a CPU, and read nothing back inside of an epoch."""

import csv
import itertools
import json
from pathlib import Path

import pytest
import torch

from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.images import write_noise
from tests.pretend_card import run_on_card
from tests.shell import records_under

SHORT = ["epochs=2", "batch_size=64", "precision=float32"]
GREY = {
    "marginal": "mechanism=rappor learner.loss=marginal",
    "unbiased": "mechanism=alibi learner.loss=unbiased",
    "stages": "mechanism=lp_2st learner.warm_start=true learner.filter_earlier=true",
    "consensus": "mechanism=rr learner.retrain=consensus",
    "client and server": "mechanism=ple learner.k2=2 mechanism.k1=2 learner.client.epochs=2 "
    "learner.client.precision=float32",
}
COLOURED = {
    "crop, flip, cutout": "mechanism=rr trainer=blockrr",
    "mixup": "mechanism=rr trainer=ghazi_cifar10",
    "pre-trained": "mechanism=lp_1st_star pretrain.trainer.epochs=1 pretrain.trainer.batch_size=64 "
    "pretrain.trainer.precision=float32",
}
TINY = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "device=cpu"]
FROZEN = [*TINY, "mechanism=rappor", "pretrain=simclr", *(f"pretrain.trainer.{x}" for x in SHORT)]


@pytest.fixture
def overrides(tiny_images):
    """What a cell of each name is composed from; writes two small colour data sets."""
    write_noise(tiny_images, train=200)
    coloured = ["dataset=cifar10", "model=resnet18_w16", "model.network.blocks=[1]", "device=cpu"]

    def of(name: str) -> list[str]:
        data, own = (TINY, GREY[name]) if name in GREY else (coloured, COLOURED[name])
        short = [f"trainer.{text}" for text in SHORT]
        return [*data, f"data_dir={tiny_images}", *own.split(), *short]

    return of


def outcome(folder):
    """Returns the record of the only run, and the rows of its history without their times."""
    (path,) = records_under(folder)
    history = path.parent / "history.csv"
    rows = []
    if history.is_file():
        with history.open() as file:
            rows = [{**row, "seconds": None} for row in csv.DictReader(file)]
    return json.loads(path.read_text()), rows


def on_cpu(cell, tmp_path):
    data_dir = next(Path(text[9:]) for text in cell if text.startswith("data_dir="))
    environment = Environment(tmp_path / "cpu", data_dir, torch.device("cpu"))
    environment.out_dir.mkdir()
    assert run_cells([compose_cell(cell)], environment) == 0
    return environment.out_dir


@pytest.mark.parametrize("name", [*GREY, *COLOURED])
def test_a_run_on_a_card_ends_as_on_a_cpu(name, overrides, tmp_path):
    # The first hour on a lent GPU would be spent on tensors that lie on the wrong device.
    cell = overrides(name)
    record, rows = outcome(on_cpu(cell, tmp_path))
    told = run_on_card([cell], tmp_path / "card")
    assert told["errors"] == [] and told["operations"] > 100 * len(rows)
    record_there, rows_there = outcome(tmp_path / "card")
    for key in ("config_hash", "accuracy", "notes"):
        assert record_there[key] == record[key]
    assert rows_there == rows
    # A history has the server's epochs alone.
    epochs = len(rows) + (2 if name == "client and server" else 0)
    assert told["waits"] == 2 * epochs, "sums of loss and hits, once an epoch"


def test_steps_wait_for_nothing(overrides, tmp_path):
    # A value read back in each step would keep the card idle while Python goes on, and a copy onto
    # the card Python while the card goes on.
    told = {}
    for name, batch_size in itertools.product(
        ("crop, flip, cutout", "mixup", "marginal"), (16, 64)
    ):
        cell = [*overrides(name), f"trainer.batch_size={batch_size}"]
        card = run_on_card([cell], tmp_path / f"{name} {batch_size}")
        assert card["waits"] == 4
        told.setdefault(name, set()).add(card["uploads"])
    assert all(len(uploads) == 1 for uploads in told.values()), told


def test_frozen_features_on_a_card_end_as_on_a_cpu(tiny_images, tmp_path):
    cell = [*FROZEN, "model=probe", f"data_dir={tiny_images}"]
    told = run_on_card([cell], tmp_path / "card")
    assert told["errors"] == []
    there, _ = outcome(tmp_path / "card")
    for path in (tiny_images / "pretrained").iterdir():
        path.unlink()
    here, _ = outcome(on_cpu(cell, tmp_path))
    assert there["accuracy"] == here["accuracy"]
    assert there["notes"]["penalty"] == here["notes"]["penalty"]


def test_a_run_that_was_cut_off_goes_on_on_the_card(overrides, tmp_path):
    # Weights, moments of the optimizer or targets would come back to the wrong device.
    cell = overrides("client and server")
    told = run_on_card([cell], tmp_path / "card", fail_at=4)
    assert told["errors"] == []
    assert outcome(tmp_path / "card")[1] == outcome(on_cpu(cell, tmp_path))[1]
