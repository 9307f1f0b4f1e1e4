"""Published numbers: rules of the CSV files, and arithmetic that every table must obey."""

import math
import subprocess
import sys
from itertools import pairwise

import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import laplace

from labeldp_bench.config import CHECKOUT
from labeldp_bench.published import MECHANISMS, PUBLISHED, TYPES, read_published
from labeldp_bench.validate import InputError

CELLS = {
    ("blockrr", "3"): 27, ("blockrr", "4"): 27, ("blockrr", "5"): 27, ("blockrr", "6"): 27,
    ("blockrr", "7"): 42, ("blockrr", "10"): 270, ("blockrr", "11"): 270,
    ("das2025", "unknown"): 15,
    ("ghazi2021", "1"): 26, ("ghazi2021", "2"): 10, ("ghazi2021", "4+5"): 27,
    ("labeldp_pro", "5+14+15"): 90, ("labeldp_pro", "6"): 19, ("labeldp_pro", "unknown"): 2,
    ("ple", "1"): 14, ("ple", "text"): 6,
    ("vector_approximation", "1a"): 25, ("vector_approximation", "1b"): 17,
    ("vector_approximation", "2"): 23, ("vector_approximation", "3"): 17,
}  # fmt: skip

# Training counts; the test set holds a tenth of them.
CLASS_COUNTS = {
    "cifar10_1": [5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500],
    "cifar10_2": [5000, 4900, 4700, 4600, 4500, 4800, 600, 500, 700, 400],
}
PER_CLASS_TABLE = {"cifar10_1": "10", "cifar10_2": "11"}
BLOCKRR_METHODS = ("rr", "rrwithprior", "blockrr")
BLOCKRR_EPS = (0.6, 0.8, 1, 2, 3, 4, 6, 8, math.inf)

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
def published():
    return read_published()


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


def test_every_table_is_complete(published):
    # A cell would silently have nothing to compare with.
    assert published.groupby(["paper", "table"]).size().to_dict() == CELLS
    assert {path.stem for path in PUBLISHED.glob("*.csv")} == {paper for paper, _ in CELLS}


def test_types_and_ranges(published):
    # A difference would be taken between a percentage and a fraction, or a text.
    types = pd.DataFrame(columns=list(TYPES)).astype(TYPES).dtypes
    assert published.dtypes.to_dict() == types.to_dict()
    assert published.value.between(0, 100).all()
    assert published["std"].dropna().between(0.1, 6).all()
    assert (published.eps > 0).all()
    key = ["paper", "table", "dataset", "method", "class", "eps", "metric"]
    assert not published.duplicated(key).any()


def test_text_is_as_printed():
    # Trailing zeros carry the precision that the paper claims; a spreadsheet would drop them.
    for path in PUBLISHED.glob("*.csv"):
        text = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert text.value.str.fullmatch(r"\d{1,2}(\.\d{1,2})?").all(), path.name
        assert text.eps.map(lambda eps: f"{float(eps):g}").equals(text.eps), path.name
        assert not path.read_bytes().count(b"\r"), path.name


def test_what_is_not_usable_says_why(published):
    # A reader would see a number crossed out without a reason.
    assert (published.note[~published.usable] != "").all()
    central = published[published.method.isin(["dp_sgd", "labeldp_pro", "pate_fm"])]
    assert len(central) == 41 and central.note.str.startswith("central").all()


def test_every_mechanism_may_have_published_numbers():
    # A new mechanism's paper could not be added without a misleading message.
    files = (CHECKOUT / "configs" / "mechanism").glob("*.yaml")
    assert {path.stem for path in files} <= set(MECHANISMS)


def test_blockrr_has_every_row(blockrr):
    # A shifted row would look like another method or budget.
    rows = class_rows(blockrr)
    expected = {
        (dataset, method, eps)
        for dataset in CLASS_COUNTS for method in BLOCKRR_METHODS for eps in BLOCKRR_EPS
    }  # fmt: skip
    assert set(rows) == expected and all(len(values) == 10 for values in rows.values())
    assert set(cells(blockrr, "accuracy")) == expected == set(cells(blockrr, "per_class_mean"))


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
    ("dataset", "method", "eps", "number", "digits", "mean", "weighted"),
    [
        ("cifar10_1", "rr", 3, 7, 85.09, 86.21, 87.66),
        ("cifar10_2", "blockrr", 3, 1, 98.72, 80.90, 87.20),
    ],
)
def test_blockrr_digit_errors_explain_their_rows(
    blockrr, dataset, method, eps, number, digits, mean, weighted
):
    # The note would blame the wrong class.
    values = class_rows(blockrr)[dataset, method, eps]
    values[number] = digits
    assert sum(values) / 10 == pytest.approx(mean, abs=0.006)
    assert weighted_mean(dataset, values) == pytest.approx(weighted, abs=0.006)
    overall = cells(blockrr, "accuracy")[dataset, method, eps]
    assert weighted_mean(dataset, values) == pytest.approx(overall, abs=0.02)


def test_blockrr_pasted_rows(blockrr):
    # These rows of table 11 belong to the other data set: they cannot be targets there.
    rows = class_rows(blockrr)
    same = {
        (method, eps): sum(
            a == b
            for a, b in zip(
                rows["cifar10_1", method, eps], rows["cifar10_2", method, eps], strict=True
            )
        )
        for method in BLOCKRR_METHODS
        for eps in BLOCKRR_EPS
    }
    assert {key: count for key, count in same.items() if count >= 9} == {
        ("rr", 1): 9, ("rrwithprior", 1): 10, ("blockrr", 1): 10,
        ("rrwithprior", 6): 10, ("rrwithprior", 8): 10,
    }  # fmt: skip
    assert rows["cifar10_1", "rr", 1][3] == 37.97 and rows["cifar10_2", "rr", 1][3] == 37.39


def test_blockrr_ablation_agrees_with_the_main_table(blockrr):
    # Table 7 at the chosen number of favoured labels is table 5.
    overall = cells(blockrr, "accuracy")
    ablation = blockrr[blockrr.table == "7"]
    best = ablation.loc[ablation.groupby("eps").value.idxmax()]
    assert best.method.tolist() == [f"blockrr_l{number}" for number in (2, 6, 5, 6, 0, 0)]
    for row in best.itertuples():
        assert row.value == overall["cifar10_2", "blockrr", row.eps]


def ple_row(method):
    table = read_published("ple")
    return table[(table.table == "1") & (table.method == method)]


def test_ple_rrwithprior_row_is_plain_randomized_response():
    # The row would be taken for what a prior achieves.
    for row in ple_row("rrwithprior").itertuples():
        keep = 100 * math.exp(row.eps) / (math.exp(row.eps) + 9)
        assert row.value == pytest.approx(keep, abs=0.006) and row.usable


def alibi_retention(scale, num_classes=10):
    """Returns P(1 + L_0 > max of the other L_j) in percent, L Laplace with `scale`."""
    noise = laplace(scale=scale)

    def mass(u):
        return noise.pdf(u - 1) * noise.cdf(u) ** (num_classes - 1)

    edges = (-50 * scale, 0, 1, 1 + 50 * scale)
    return 100 * sum(quad(mass, a, b)[0] for a, b in pairwise(edges))


def test_ple_alibi_row_has_the_wrong_noise_scale():
    # The claim that ALIBI keeps more labels than RR at equal eps would stand.
    for row in ple_row("alibi").itertuples():
        assert row.value == pytest.approx(alibi_retention(1 / (math.sqrt(2) * row.eps)), abs=0.3)
        assert row.value > alibi_retention(2 / row.eps) + 10
        assert not row.usable and f"{2 * math.sqrt(2) * row.eps:.2f}" in row.note
    assert alibi_retention(2.0) == pytest.approx(16.37, abs=0.005)


def test_quoted_rows_are_the_source_rounded(published):
    # A slip in either file: the vector paper quotes Ghazi et al. to one decimal.
    vector = published[published.paper == "vector_approximation"]
    quoted = vector[vector.note == "quoted from Ghazi et al. 2021"]
    key = ["dataset", "method", "eps"]
    source = published[published.paper == "ghazi2021"].set_index(key).value
    assert len(quoted) == 21
    for row in quoted.itertuples():
        assert row.value == pytest.approx(source[row.dataset, row.method, row.eps], abs=0.0501)


def test_vector_paper_values_known_to_be_wrong(published):
    # A two-convolution network would be asked for 99 % on Fashion-MNIST, ALIBI for eps 2.
    rows = published[(published.paper == "vector_approximation") & ~published.usable]
    found = list(zip(rows.table, rows.dataset, rows.method, rows.eps, rows.value, strict=True))
    assert found == [
        ("1b", "fashion_mnist", "none", math.inf, 99.0),
        ("2", "cifar10", "alibi", 2.0, 84.2),
    ]


HEADER = ",".join(TYPES)
GOOD = "p,1a,mnist,rr,,1,accuracy,95.3,0.2,true,"
CLASS_ROW = "p,1a,mnist,rr,3,1,class_accuracy,95.3,,true,"


def write(folder, *rows, header=HEADER):
    (folder / "p.csv").write_text("\n".join([header, *rows]) + "\n")


def test_a_file_of_a_new_paper_loads(tmp_path):
    # A new paper must need no code.
    write(tmp_path, GOOD, CLASS_ROW, GOOD.replace("1a", "2").replace(",1,", ",inf,"))
    table = read_published("p", folder=tmp_path)
    assert table["class"].isna().tolist() == [True, False, True] and table["class"][1] == 3
    assert table.eps.tolist() == [1.0, 1.0, math.inf]
    assert table["std"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GOOD.replace("p,", "q,")], "line 2: paper must be one of p; got 'q'"),
        ([GOOD.replace("1a", "a1")], "table must read like 1a, 4+5, text or unknown, got 'a1'"),
        ([GOOD.replace("mnist", "mnits")], "got 'mnits' (did you mean mnist?)"),
        ([GOOD.replace("rr", "blockrr_l7")], "got 'blockrr_l7' (did you mean blockrr_l6?)"),
        ([GOOD.replace("accuracy", "acc")], "line 2: metric must be one of accuracy,"),
        ([GOOD.replace(",1,", ",0,")], "line 2: eps must be a number > 0, got 0.0"),
        ([GOOD.replace(",1,", ",one,")], "line 2: eps must be a number > 0, got 'one'"),
        ([GOOD.replace("95.3", "9892")], "value must be a number >= 0 and <= 100, got 9892.0"),
        ([GOOD.replace("95.3", "")], "line 2: value must be a number >= 0 and <= 100, got ''"),
        ([GOOD.replace("0.2", "nan")], "line 2: std must be a number >= 0 and <= 100, got nan"),
        ([GOOD.replace("true", "yes")], "line 2: usable must be one of true, false; got 'yes'"),
        ([GOOD.replace("true", "false")], "line 2: a row that is not usable must say why in note"),
        ([GOOD + ","], "line 2: a row must have 11 fields, got 12"),
        ([CLASS_ROW.replace(",3,", ",10,")], "line 2: class must be in [0, 9], got 10"),
        ([CLASS_ROW.replace(",3,", ",,")], "line 2: class must be an integer in [0, 9], got ''"),
        ([GOOD.replace("rr,,", "rr,3,")], "line 2: class must be empty for accuracy, got '3'"),
        ([GOOD, GOOD.replace("95.3", "95.4")], "line 3: this row repeats the row above"),
        ([GOOD.replace("1a", "10"), GOOD.replace("1a", "4")], "line 3: this row must come before"),
        ([GOOD.replace(",1,", ",10,"), GOOD.replace(",1,", ",2,")], "line 3: this row must come"),
    ],
)  # fmt: skip
def test_bad_rows_are_one_line(tmp_path, rows, message):
    # Whoever adds a paper would search a traceback for the line.
    write(tmp_path, *rows)
    with pytest.raises(InputError) as error:
        read_published("p", folder=tmp_path)
    text = str(error.value)
    assert text.startswith("p.csv line ") and message in text and "\n" not in text


def test_wrong_columns_and_unknown_papers_are_one_line(tmp_path):
    # A missing column would surface as a KeyError somewhere else.
    with pytest.raises(InputError, match=r"no published tables"):
        read_published(folder=tmp_path)
    write(tmp_path, GOOD, header="paper,table")
    with pytest.raises(InputError, match=r"^p.csv line 1: columns must be paper,table,dataset,"):
        read_published("p", folder=tmp_path)
    with pytest.raises(InputError, match=r"got 'blockr' \(did you mean blockrr\?\)"):
        read_published("blockr")


def test_loading_imports_no_torch():
    # Tables are rebuilt on machines without a GPU; torch costs a second.
    code = "import sys, labeldp_bench.published as p; p.read_published(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pandas" in done.stdout.split() and "torch" not in done.stdout.split()
