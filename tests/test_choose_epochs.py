"""Choosing epochs by held-out releases: it looks at releases only, and finds overfitting."""

import runpy

import pandas as pd
import pytest

from labeldp_bench.evaluate import Evaluator
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
