"""Accuracy against bits: which methods have a place there, and where it is."""

import math

import pandas as pd
import pytest

from labeldp_bench.records.published import read_published
from papers.site.best_known import NOISY
from papers.site.bits import CLASSES, fit, points

ROW = {
    "dataset": "mnist", "mechanism": "rr", "learner": "single_stage", "model": "cnn",
    "loss": "plain", "pretrain": "none", "eps": 2.0, "accuracy": 0.9, "n_test": 10_000,
    "information_bits": 0.588, "identity": {"mechanism": "rr", "mechanism.eps": 2.0, "seed": 0},
    "distribution": 1,
}  # fmt: skip
NOTHING = read_published().iloc[:0]


def test_a_published_method_stands_where_its_release_belongs():
    # The known answer: RAPPOR tells as much as randomised response at eps=2, and less above.
    rows = points({}, read_published())
    cifar = rows[(rows.dataset == "cifar10") & rows.eps.isin([2.0, 3.0, 4.0])]
    rappor = cifar[cifar.line == "vector_approximation, rappor"].set_index("eps").bits
    response = cifar[cifar.line == "ghazi2021, lp_1st"].set_index("eps").bits
    assert rappor.round(2).to_dict() == {2.0: 0.59, 3.0: 1.17, 4.0: 1.78}
    assert response.round(2).to_dict() == {2.0: 0.59, 3.0: 1.45, 4.0: 2.29}
    # A share of .9 drawn anew: the known answer is that of the noise itself, p = .19.
    noisy = rows[(rows.dataset == "cifar10") & (rows.line == "noisy_labels, ssr_plus")]
    p = 0.19
    bits = math.log2(10) + p * math.log2(p) + (1 - p) * math.log2((1 - p) / 9)
    assert noisy.bits.min() == pytest.approx(bits, rel=1e-4) and set(noisy.family) == {NOISY}


def test_what_has_no_place_is_left_out():
    # A central method or one with a prior would be credited with bits that it did not have.
    rows = points({}, read_published())
    assert set(rows.dataset) == set(CLASSES)
    assert not rows.line.str.contains("lp_2st|pate|labeldp_pro, labeldp_pro|dp_sgd|ple, ple").any()
    assert not rows.duplicated(["dataset", "line", "eps", "cell"]).any()
    unknown = {"a": ROW | {"information_bits": None}, "b": ROW | {"n_test": 100}}
    assert points(unknown, NOTHING).empty and len(points({"a": ROW}, NOTHING)) == 1


def test_another_loss_is_another_learner():
    # One line for both would lie between them, through no mark of either.
    features = ROW | {"model": "probe", "pretrain": "imagenet"}
    rows = points({loss: features | {"loss": loss} for loss in ("bce", "marginal")}, NOTHING)
    assert rows.line.nunique() == 2


def test_the_line_of_a_learner_rises():
    cells = pd.DataFrame({"bits": [0.1, 0.2, 0.2, 0.3], "accuracy": [10.0, 40.0, 50.0, 30.0]})
    line = fit(cells)
    assert line.is_monotonic_increasing and line[0.1] == 10
    assert line[0.2] == line[0.3] == pytest.approx(40)  # three cells of equal weight
