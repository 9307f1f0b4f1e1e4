"""`labeldp fit` on data that take it long."""

import re

import numpy as np
import pandas as pd
import pytest

import labeldp_bench as ldp
from labeldp_bench.cli.labeldp.__main__ import main


@pytest.mark.parametrize("model", ["logistic", "boosted_trees"])
def test_a_long_fit_says_early_how_long_it_takes(model, tmp_path, monkeypatch, capsys):
    # Nothing was said before the first fifth was done, which may be after an hour.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("labeldp_bench.own_labels.models.LONG", 1)
    labels = np.arange(60) % 2
    ldp.privatize(labels, classes=[0, 1], eps=8.0, seed=0).save("r.parquet")
    pd.DataFrame({"x": labels, "empty": np.where(labels > 2, 1.0, np.nan)}).to_csv("f.csv")
    arguments = ["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops", "--model", model]
    assert main(arguments) == 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"about \d+ (s|min): 60 rows of 2 classes, fitted 6 times", said)
