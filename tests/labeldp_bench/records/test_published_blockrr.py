"""BlockRR's published tables: the arithmetic that they must obey, and where they do not."""

import math

import pytest

from labeldp_bench.records.published import read_published

# Training counts; the test set holds a tenth of them.
CLASS_COUNTS = {
    "cifar10_1": [5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500],
    "cifar10_2": [5000, 4900, 4700, 4600, 4500, 4800, 600, 500, 700, 400],
}
BLOCKRR_METHODS = ("rr", "rrwithprior", "blockrr")
# Rows whose weighted mean is not the printed overall accuracy: (weighted mean, printed).
WRONG_OVERALL = {
    ("cifar10_1", "rr", 3): (88.11, 87.67),
    ("cifar10_1", "rrwithprior", 8): (92.61, 92.72),
    ("cifar10_1", "blockrr", math.inf): (92.72, 92.87),
    ("cifar10_2", "rr", 1): (55.07, 55.82),
    ("cifar10_2", "rrwithprior", 1): (59.86, 59.48),
    ("cifar10_2", "blockrr", 1): (58.16, 58.26),
    ("cifar10_2", "blockrr", 3): (87.23, 87.18),
    ("cifar10_2", "rr", 4): (91.98, 90.22),
    ("cifar10_2", "rrwithprior", 6): (92.75, 92.44),
    ("cifar10_2", "rrwithprior", 8): (92.78, 92.67),
}
# Rows whose plain mean is not the printed average over classes: (mean, printed).
WRONG_AVERAGE = {
    ("cifar10_1", "rrwithprior", 2): (53.08, 50.08),
    ("cifar10_2", "blockrr", 3): (80.92, 80.90),
}


@pytest.fixture(scope="module")
def blockrr():
    return read_published("blockrr")


def weighted(dataset, values):
    counts = CLASS_COUNTS[dataset]
    return sum(x * n for x, n in zip(values, counts, strict=True)) / sum(counts)


def plain(dataset, values):
    return sum(values) / 10


@pytest.mark.parametrize(
    ("metric", "mean", "rounding", "expected"),
    [
        ("accuracy", weighted, 0.02, WRONG_OVERALL),
        ("per_class_mean", plain, 0.005 + 1e-9, WRONG_AVERAGE),
    ],
)
def test_a_printed_mean_is_that_of_its_classes_except_where_listed(
    blockrr, metric, mean, rounding, expected
):
    # A slip in copying the tables, or one more error in the paper, would go unnoticed.
    rows = blockrr[(blockrr.metric == metric) & blockrr.method.isin(BLOCKRR_METHODS)]
    rows = rows[rows.table != "7"]
    printed = dict(
        zip(zip(rows.dataset, rows.method, rows.eps, strict=True), rows.value, strict=True)
    )
    classes = blockrr[blockrr.metric == "class_accuracy"].sort_values("class")
    wrong = {}
    for key, group in classes.groupby(["dataset", "method", "eps"]):
        found = mean(key[0], group.value.tolist())
        if abs(found - printed[key]) > rounding:
            wrong[key] = (round(found, 2), printed[key])
    assert wrong == expected and len(printed) == 54


def test_classes_that_do_not_add_up_are_exactly_the_unusable_ones(blockrr):
    # Our per-class rows would be held against values that cannot be right.
    bad = blockrr[(blockrr.metric == "class_accuracy") & ~blockrr.usable]
    assert set(zip(bad.dataset, bad.method, bad.eps, strict=True)) == set(WRONG_OVERALL)
