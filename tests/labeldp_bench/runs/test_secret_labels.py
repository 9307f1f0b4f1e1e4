"""Runs with secret noise: no message, file of an error or summary shows a label."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from labeldp.store import LabelStore
from labeldp.support.validate import InputError
from labeldp_bench.data.images import ImageData
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.runs import job
from labeldp_bench.runs.environment import Environment
from labeldp_bench.runs.job import run_cells
from tests.conftest import TINY_CIRCLE
from tests.shell import quick

SECRET = "HIV pos (Dr Meier)"
TABLE = ["dataset=table", "dataset.file=t.csv", "dataset.name=people", "dataset.label=status"]
TABLE += ["dataset.classes=[hivneg,hivpos]", "mechanism=rr", "eps=2", "model=logistic"]
TABLE += ["noise=secret", "out_dir=runs"]


def shown(arguments, folder):
    """Returns the exit status of a command, and all that it printed and wrote."""
    outcome = quick(arguments, folder)
    written = [path.read_text(errors="replace") for path in (folder / "runs").rglob("*.*")
               if path.is_file()]  # fmt: skip
    return outcome.returncode, "\n".join([*outcome.lines, *written])


@pytest.mark.parametrize("sweep", [[], ["-m", "seed=0,1"]], ids=["run", "sweep"])
@pytest.mark.parametrize("kind", ["last row", "no header", "one class", "empty"])
def test_a_table_that_cannot_be_read_shows_no_label(kind, sweep, tmp_path):
    rows = [f"{20 + i % 50},{'hivneg' if i % 3 else 'hivpos'}" for i in range(60)]
    header = ["age,status"]
    named = "t.csv, row 61, column status: the label is none of hivneg,hivpos"
    if kind == "last row":
        rows.append(f"33,{SECRET}")
    elif kind == "no header":
        header, rows, named = [], [f"33,{SECRET}", *rows], "t.csv has no column status"
    elif kind == "one class":
        rows, named = [f"{20 + i},hivpos {SECRET}" for i in range(60)], "row 1, column status"
    else:
        rows, named = [*rows, "33,"], "row 61, column status: the label is empty"
    (tmp_path / "t.csv").write_text("\n".join([*header, *rows]) + "\n")
    status, text = shown([*sweep, *TABLE], tmp_path)
    assert status and named in text and "Meier" not in text and "hivpos HIV" not in text


def test_classes_are_not_read_off_secret_labels(tmp_path):
    keys = [*TABLE, "dataset.classes=public"]
    with pytest.raises(InputError, match=r"dataset\.classes=public .*name all"):
        compose_cell(keys)
    compose_cell([*keys, "noise=seeded"])


@pytest.mark.parametrize("classes", [3, 4, 2])
def test_images_show_neither_a_label_nor_which_class_has_no_example(classes, tmp_path):
    labels = np.array([0, 2, 0, 2] * 15)  # class 1 has none; 2 is too large for two classes
    images = np.random.default_rng(0).integers(0, 255, (60, 4, 4), dtype=np.uint8)
    parts = {"x_train": images, "y_train": labels, "x_test": images[:20], "y_test": labels[:20]}
    np.savez(tmp_path / "own.npz", **parts)
    keys = ["dataset=npz", "dataset.name=own", f"dataset.num_classes={classes}", "data_dir=."]
    keys += ["mechanism=rr", "model=knn", "model.k=3", "eps=2", "out_dir=runs"]
    outcome = quick([*keys, "noise=secret"], tmp_path)
    text = "\n".join(outcome.lines)
    if classes == 2:
        assert outcome.returncode == 2 and "y_train[1]" in text and "got" not in text
    else:
        assert outcome.returncode == 0 and "accuracy" in text
        assert "no example" not in text and "per class" not in text
        seeded = "\n".join(quick([*keys, "noise=seeded"], tmp_path).lines)
        assert "no example of class 1" in seeded and "per class" in seeded


@dataclass(frozen=True)
class Broken:
    """A data set whose reader quotes a label when it fails."""

    error: type[Exception]
    trials: int = 1

    def draw(self, data_dir, seed):
        raise self.error(SECRET)


@pytest.mark.parametrize("kind", [ValueError, KeyError, RuntimeError])
@pytest.mark.parametrize("noise", ["secret", "seeded"])
def test_an_error_nobody_foresaw_is_shown_by_its_place(noise, kind, tmp_path, monkeypatch, capsys):
    cell = compose_cell([*TINY_CIRCLE, "dataset.trials=1", "mechanism=rr", f"noise={noise}"])
    parts = replace(cell.build(), dataset=Broken(kind))
    monkeypatch.setattr(type(cell), "build", lambda _: parts)
    assert run_cells([cell], Environment(tmp_path, tmp_path, torch.device("cpu"))) == 1
    text = (tmp_path / cell.folder / "error.txt").read_text()
    said = text + capsys.readouterr().err
    assert "test_secret_labels.py" in text and "in draw" in text and said.count(kind.__name__) >= 2
    assert (SECRET in said) == (noise == "seeded")


def test_what_ran_out_is_said_with_secret_labels_too(tmp_path, monkeypatch, capsys):
    cell = compose_cell([*TINY_CIRCLE, "mechanism=rr", "noise=secret"])
    fails = OSError(28, "No space left on device")
    monkeypatch.setattr(job, "share_data_and_model", lambda *_: (_ for _ in ()).throw(fails))
    assert run_cells([cell], Environment(tmp_path, tmp_path, torch.device("cpu"))) == 1
    assert "No space left" in capsys.readouterr().err


def test_a_store_of_a_data_set_of_ones_own_shows_no_wrong_label():
    with pytest.raises(InputError, match="row 2 is not") as caught:
        LabelStore(torch.tensor([0, 1, 77]), 3)
    assert "77" not in str(caught.value)


def test_a_class_that_is_too_small_for_its_part_is_not_named(tmp_path):
    labels = np.array([0, 1] * 10)
    images = np.arange(20, dtype=np.uint8)[:, None, None].repeat(4, 1).repeat(4, 2)
    np.savez(tmp_path / "own.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    keys = ["dataset=cifar10_1", "dataset.source=own", "dataset.name=part", "mechanism=rr"]
    cell = compose_cell([*keys, "dataset.num_classes=2", "dataset.train_counts=[10,20]"])
    dataset = cell.build().dataset
    assert isinstance(dataset, ImageData)
    with pytest.raises(InputError, match=r"lower dataset\.train_counts") as caught:
        dataset.draw(tmp_path, 0)
    assert "class 1" not in str(caught.value)
