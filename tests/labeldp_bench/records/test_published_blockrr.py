"""BlockRR's published tables: the arithmetic that they must obey, and where they do not."""

import math

import pytest
from scipy.stats import ttest_ind_from_stats

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
# Averages over classes that must not be used.
UNUSABLE_AVERAGES = {
    ("cifar10_1", "rrwithprior", 2), ("cifar10_1", "rr", 3),
    ("cifar10_2", "rr", 1), ("cifar10_2", "rrwithprior", 1), ("cifar10_2", "blockrr", 1),
    ("cifar10_2", "rr", 4), ("cifar10_2", "rrwithprior", 6), ("cifar10_2", "rrwithprior", 8),
}  # fmt: skip


@pytest.fixture(scope="module")
def blockrr():
    return read_published("blockrr")


def cells(table, metric):
    """Returns {(dataset, method, eps): value} of BlockRR's tables 3 and 5, or 4 and 6."""
    rows = table[(table.metric == metric) & table.method.isin(BLOCKRR_METHODS)]
    return {
        (row.dataset, row.method, row.eps): row.value
        for row in rows.itertuples()
        if row.table != "7"
    }


def class_rows(table):
    """Returns {(dataset, method, eps): the ten values of a per-class row}."""
    rows = table[table.metric == "class_accuracy"]
    return {
        key: group.sort_values("class").value.tolist()
        for key, group in rows.groupby(["dataset", "method", "eps"])
    }


def weighted_mean(dataset, values):
    counts = CLASS_COUNTS[dataset]
    return sum(x * n for x, n in zip(values, counts, strict=True)) / sum(counts)


def test_blockrr_overall_accuracy_is_the_weighted_mean_except_where_listed(blockrr):
    # A slip in copying the tables, or one more error in the paper, would go unnoticed.
    printed = cells(blockrr, "accuracy")
    wrong = {}
    for key, values in class_rows(blockrr).items():
        weighted = weighted_mean(key[0], values)
        if abs(weighted - printed[key]) > 0.02:
            wrong[key] = (round(weighted, 2), printed[key])
    assert wrong == WRONG_OVERALL and len(printed) - len(wrong) == 44


def test_blockrr_average_is_the_plain_mean_except_where_listed(blockrr):
    # The same for tables 4 and 6; what is left is rounding.
    printed = cells(blockrr, "per_class_mean")
    wrong = {}
    for key, values in class_rows(blockrr).items():
        mean = sum(values) / 10
        if abs(mean - printed[key]) > 0.005 + 1e-9:
            wrong[key] = (round(mean, 2), printed[key])
    assert wrong == WRONG_AVERAGE


def test_blockrr_rows_that_do_not_add_up_are_exactly_the_unusable_ones(blockrr):
    # Our per-class rows would be held against values that cannot be right.
    per_class = blockrr[blockrr.metric == "class_accuracy"]
    bad = per_class[~per_class.usable]
    assert set(zip(bad.dataset, bad.method, bad.eps, strict=True)) == set(WRONG_OVERALL)
    found = {key: set(group["class"]) for key, group in bad.groupby(["dataset", "method", "eps"])}
    one_class = {
        ("cifar10_1", "rr", 3): {7},
        ("cifar10_2", "blockrr", 3): {1},
        ("cifar10_1", "rrwithprior", 8): {6, 8},
    }
    assert found == {key: one_class.get(key, set(range(10))) for key in WRONG_OVERALL}


def test_blockrr_usable_targets(blockrr):
    # Overall accuracies may all be used; the averages except eight.
    averages = blockrr[blockrr.metric == "per_class_mean"]
    bad = averages[~averages.usable]
    assert set(zip(bad.dataset, bad.method, bad.eps, strict=True)) == UNUSABLE_AVERAGES
    assert blockrr.usable[blockrr.metric == "accuracy"].all()


@pytest.mark.parametrize(
    ("dataset", "method", "p"), [("cifar10_1", "blockrr", 1e-4), ("cifar10_2", "rrwithprior", 2e-4)]
)
def test_mechanisms_without_noise_differ_significantly_from_rr(blockrr, dataset, method, p):
    # docs/differences.md says so: at eps=inf all three are the identity.
    rows = blockrr[(blockrr.metric == "accuracy") & (blockrr.dataset == dataset)]
    clean = rows[rows.eps == math.inf].set_index("method")[["value", "std"]]
    test = ttest_ind_from_stats(*clean.loc[method], 10, *clean.loc["rr"], 10, equal_var=False)
    assert test.pvalue == pytest.approx(p, rel=0.4)
    lead = rows.pivot_table(index="eps", columns="method", values="value")
    assert (lead.blockrr - lead.rr)[lambda gap: (gap.index >= 2) & (gap.index < 9)].max() <= 0.401
