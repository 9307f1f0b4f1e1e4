"""What rows of features may be."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import labeldp as ldp
from labeldp.cli.__main__ import main
from labeldp.models import load_model, model_for
from labeldp.support.validate import InputError


@pytest.mark.parametrize("kind", [np.array, list, pd.DataFrame])
def test_texts_are_refused_in_one_line(kind):
    # "could not convert string to float: np.str_('north')" did not say what holds it, nor the way.
    texts = kind([["north"], ["south"]] * 5)
    classes = ldp.privatize([0, 1] * 5, classes=[0, 1], eps=8.0, seed=0)
    numbers = ldp.privatize([0, 1] * 5, bounds=(0, 1), eps=8.0, seed=0)
    fitted = ldp.LabelDPClassifier().fit([[0.0], [1.0]] * 5, classes)
    way = r"X must hold numbers, and holds texts, such as 'north' \(encode them, .*OneHotEncoder"
    for work in (
        lambda: ldp.LabelDPClassifier().fit(texts, classes),
        lambda: ldp.LabelDPRegressor().fit(texts, numbers),
        lambda: fitted.predict(texts),
    ):
        with pytest.raises(InputError, match=way):
            work()
    with pytest.raises(InputError, match=r"^X must hold numbers, and contains NaN .*\)$"):
        fitted.predict([[0.0], [np.nan]])
    encoder = OneHotEncoder(sparse_output=False)  # as the message says
    made = make_pipeline(encoder, ldp.LabelDPClassifier()).fit(texts, classes)
    assert len(made.predict(texts)) == 10


@pytest.mark.parametrize("name", ["linear", "boosted_trees"])
def test_gaps_and_texts_are_taken_in_python_as_by_the_command(name, tmp_path, monkeypatch):
    # Python refused both, and said nothing of what the command makes of them.
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": random.normal(size=300), "town": random.choice(["a", "b", "c"], 300)}
    )
    labels = np.where((table["x"] > 0) ^ (table["town"] == "a"), "yes", "no")
    table.loc[::9, "x"], table.loc[::7, "town"] = np.nan, ""
    table.to_csv("f.csv", index=False)
    ldp.privatize(labels, ["yes", "no"], 4.0, seed=0).save("r.parquet")
    fit = ["fit", "f.csv", "--release", "r.parquet", "--out", "m.skops", "--model", name]
    assert main(fit) == 0
    release = ldp.load_release("r.parquet")
    made = model_for(table, name).fit(table, release)
    by_command = load_model(tmp_path / "m.skops").predict_proba(table)
    assert np.allclose(made.predict_proba(table), by_command)
    scores = ldp.cross_val_predict(model_for(table, name), table, release, cv=2)
    assert ldp.metrics.accuracy(release, scores).value > 0.6


@pytest.mark.parametrize("model", [{}, {"estimator": "boosted_trees"}])
def test_numbers_that_overflow_are_refused(model):
    # Their variance became infinite, and the column said nothing any more, without a word.
    x = np.linspace(-1, 1, 60)[:, None]
    classes = ldp.privatize(x[:, 0] > 0, classes=[False, True], eps=8.0, seed=0)
    fitted = ldp.LabelDPClassifier(**model).fit(x, classes)
    said = re.escape("holds one of 1e+200 (give that column another unit)")
    with pytest.raises(InputError, match=said):
        ldp.LabelDPClassifier(**model).fit(x * 1e200, classes)
    with pytest.raises(InputError, match="give that column another unit"):
        fitted.predict(x * -1e200)
    numbers = ldp.privatize(x[:, 0], bounds=(-1, 1), eps=8.0, seed=0)
    with pytest.raises(InputError, match="give that column another unit"):
        ldp.LabelDPRegressor().fit(x * 1e200, numbers)
