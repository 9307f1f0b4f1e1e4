"""Choosing epochs by held-out releases: it looks at releases only, and finds overfitting."""

import runpy

import pandas as pd
import pytest
import torch

from labeldp_bench.config import compose_cell
from labeldp_bench.evaluate import Evaluator
from labeldp_bench.place import Place
from labeldp_bench.run import run_cells
from labeldp_bench.vault import LabelVault
from tests.conftest import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "choose_epochs.py"
TINY = [
    "dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "model=linear",
    "trainer.epochs=3", "held_out=80",
]  # fmt: skip


@pytest.fixture
def main():
    return runpy.run_path(str(SCRIPT))["main"]


def test_one_row_per_epoch_and_one_best(main, tiny_images, tmp_path):
    out = tmp_path / "epochs.csv"
    arguments = ["mechanism=rr,rappor", "eps=1", *TINY]
    assert main([*arguments, f"data_dir={tiny_images}", f"out={out}"]) == 0
    rows = pd.read_csv(out)
    assert list(rows.mechanism) == ["rr"] * 3 + ["rappor"] * 3
    for _, cell in rows.groupby("mechanism"):
        assert cell.best.sum() == 1
        assert cell.held_out_loss.idxmin() == cell.best.idxmax()


def test_no_test_image_is_scored(main, tiny_images, tmp_path, monkeypatch):
    # Epochs that test labels chose would flatter every table that uses them.
    def fail(*_):
        raise AssertionError("the test set was scored")

    monkeypatch.setattr(Evaluator, "_confusion", fail)
    arguments = ["mechanism=rr", *TINY]
    out = tmp_path / "epochs.csv"
    assert main([*arguments, f"data_dir={tiny_images}", f"out={out}"]) == 0


def test_choosing_and_training_share_one_release(main, tiny_images, tmp_path, monkeypatch):
    # Two independent ones would cost each label twice, and no ledger would say so.
    released, plain = [], LabelVault.release

    def kept(vault, *given):
        released.append(plain(vault, *given))
        return released[-1]

    monkeypatch.setattr(LabelVault, "release", kept)
    cell = ["mechanism=rr", "dataset.limit_train=150", *TINY[:-1], f"data_dir={tiny_images}"]
    assert main([*cell, "held_out=50", f"out={tmp_path / 'epochs.csv'}"]) == 0
    place = Place(tmp_path, tiny_images, torch.device("cpu"))
    assert run_cells([compose_cell(cell)], place) == []
    one, other = (release.outputs for release in released)
    assert len(one) == 150 and torch.equal(one, other)


def test_a_budget_makes_it_smaller(main, tiny_images, tmp_path):
    # Its title would say quick, over epochs and releases of another run than the quick one.
    out = tmp_path / "epochs.csv"
    limits = ["dataset.limit_train=200", "dataset.limit_test=50", "held_out=80"]
    cell = ["mechanism=rr", "budget=smoke", *TINY[:4], *limits]
    assert main([*cell, f"data_dir={tiny_images}", f"out={out}"]) == 0
    assert len(pd.read_csv(out)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mechanism=lp_2st"], "has not one number of epochs"),
        (["mechanism=rrx"], "mechanism must be one of"),
        (["held_out=240"], "held_out must be in [1, 239], got 240"),
        (["rr"], "cannot read 'rr' (write key=value"),
    ],
)
def test_bad_input_gets_one_line(arguments, message, main, tiny_images, tmp_path, capsys):
    out = tmp_path / "epochs.csv"
    common = [*TINY, f"data_dir={tiny_images}", f"out={out}"]
    assert main([*common, *arguments]) == 2
    (line,) = (text for text in capsys.readouterr().err.splitlines() if "error" in text)
    assert message in line
    assert not out.exists()
