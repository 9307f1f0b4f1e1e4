"""What rows of features may be."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import labeldp as ldp
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
    encoder = OneHotEncoder(sparse_output=False)  # as the message says
    made = make_pipeline(encoder, ldp.LabelDPClassifier()).fit(texts, classes)
    assert len(made.predict(texts)) == 10


@pytest.mark.parametrize(("model", "size"), [({}, 1e200), ({"estimator": "boosted_trees"}, 1e40)])
def test_numbers_that_overflow_are_refused(model, size):
    # Their variance became infinite, and the column said nothing any more, without a word.
    x = np.linspace(-1, 1, 60)[:, None]
    classes = ldp.privatize(x[:, 0] > 0, classes=[False, True], eps=8.0, seed=0)
    fitted = ldp.LabelDPClassifier(**model).fit(x, classes)
    said = re.escape(f"holds one of {size:g} (give that column another unit)")
    with pytest.raises(InputError, match=said):
        ldp.LabelDPClassifier(**model).fit(x * size, classes)
    with pytest.raises(InputError, match="give that column another unit"):
        fitted.predict(x * -size)
    numbers = ldp.privatize(x[:, 0], bounds=(-1, 1), eps=8.0, seed=0)
    with pytest.raises(InputError, match="give that column another unit"):
        ldp.LabelDPRegressor().fit(x * 1e200, numbers)
