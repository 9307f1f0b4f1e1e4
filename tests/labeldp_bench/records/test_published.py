"""Published numbers: rules of the CSV files, and values that one paper takes from another."""

import math
from itertools import pairwise

import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import laplace

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import mechanism_names
from labeldp_bench.records.published import PUBLISHED, TYPES, read_published

CELLS = {
    ("blockrr", "3"): 27, ("blockrr", "4"): 27, ("blockrr", "5"): 27, ("blockrr", "6"): 27,
    ("blockrr", "7"): 42, ("blockrr", "10"): 270, ("blockrr", "11"): 270,
    ("das2025", "unknown"): 15, ("dpmlbench", "unknown"): 18, ("ghazi2021_code", "unknown"): 4,
    ("ghazi2021", "1"): 26, ("ghazi2021", "2"): 10, ("ghazi2021", "4+5"): 27,
    ("labeldp_pro", "5+14+15"): 94, ("labeldp_pro", "6"): 25, ("labeldp_pro", "unknown"): 2,
    ("ple", "1"): 14, ("ple", "text"): 6,
    ("vector_approximation", "1a"): 25, ("vector_approximation", "1b"): 17,
    ("vector_approximation", "2"): 23, ("vector_approximation", "3"): 17,
}  # fmt: skip


NUM_CLASSES = {"mnist": 10, "fashion_mnist": 10, "kmnist": 10, "cifar10": 10, "cifar100": 100}
NUM_CLASSES |= {"cifar10_1": 10, "cifar10_2": 10}
# BlockRR with a fixed l, other ways to learn from randomized response, and what others ran.
VARIANTS = {f"blockrr_l{favoured}" for favoured in range(7)}
VARIANTS |= {"rr_unbiased", "rr_retrain_all", "rr_retrain_consensus", "dp_sgd"}


@pytest.fixture(scope="module")
def published():
    return read_published()


def test_every_row_obeys_the_rules_of_the_readme(published):
    # A misspelt method would be compared with nothing, and a value of 9892 with a percentage.
    rows, of_class = published, published.metric == "class_accuracy"
    assert rows.table.str.fullmatch(r"\d+[a-z]?(\+\d+[a-z]?)*|text|unknown").all()
    assert set(rows.dataset) <= set(NUM_CLASSES)
    assert set(rows.method) <= {*mechanism_names(), *VARIANTS}
    assert (rows["class"].notna() == of_class).all()
    numbers = rows[of_class]
    assert ((numbers["class"] >= 0) & (numbers["class"] < numbers.dataset.map(NUM_CLASSES))).all()
    assert (rows.eps > 0).all() and rows.value.between(0, 100).all()
    assert set(rows.metric) <= {
        "accuracy", "per_class_mean", "class_accuracy", "response_accuracy"
    }  # fmt: skip
    assert (rows.usable | (rows.note != "")).all()
    key = ["paper", "table", "dataset", "method", "eps", "class", "metric"]
    assert not rows.duplicated(key).any()


def test_every_table_is_complete(published):
    # A cell would silently have nothing to compare with.
    assert published.groupby(["paper", "table"]).size().to_dict() == CELLS
    assert {path.stem for path in PUBLISHED.glob("*.csv")} == {paper for paper, _ in CELLS}


def test_spreads_are_in_percent_as_the_values_are(published):
    # A difference of percentages would be held against a spread of fractions.
    assert published["std"].dropna().between(0.05, 6).all()


def test_text_is_as_printed():
    # Trailing zeros carry the precision that the paper claims; a spreadsheet would drop them.
    for path in PUBLISHED.glob("*.csv"):
        text = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert text.value.str.fullmatch(r"\d{1,2}(\.\d{1,2})?").all(), path.name
        assert text.eps.map(lambda eps: f"{float(eps):g}").equals(text.eps), path.name
        assert not path.read_bytes().count(b"\r"), path.name


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


GOOD = "p,1a,mnist,rr,,1,accuracy,95.3,0.2,true,"
CLASS_ROW = "p,1a,mnist,rr,3,1,class_accuracy,95.3,,true,"


HEADER = ",".join(TYPES)


def write(folder, *rows, header=HEADER):
    (folder / "p.csv").write_text("\n".join([header, *rows]) + "\n")


def test_a_file_of_a_new_paper_loads(tmp_path):
    # A new paper must need no code.
    write(tmp_path, GOOD, CLASS_ROW, GOOD.replace("1a", "2").replace(",1,", ",inf,"))
    table = read_published("p", folder=tmp_path)
    assert table["class"].isna().tolist() == [True, False, True] and table["class"][1] == 3
    assert table.eps.tolist() == [1.0, 1.0, math.inf] and table.note.tolist() == [""] * 3
    assert table["std"].isna().tolist() == [False, True, False]


def test_damaged_files_and_unknown_papers_are_one_line(tmp_path):
    # Whoever adds a paper would search a traceback for the file.
    with pytest.raises(InputError, match=r"no published tables"):
        read_published(folder=tmp_path)
    for damaged in ({"header": "paper,table"}, {"rows": [GOOD.replace("95.3", "9x")]}):
        write(tmp_path, *damaged.pop("rows", [GOOD]), **damaged)
        with pytest.raises(InputError, match=r"p\.csv is damaged"):
            read_published("p", folder=tmp_path)
    with pytest.raises(InputError, match=r"got 'blockr' \(did you mean blockrr\?\)"):
        read_published("blockr")
