"""Published numbers: rules of the CSV files, and values that one paper takes from another."""

import math

import pandas as pd
import pytest

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import mechanism_names
from labeldp_bench.records.published import PUBLISHED, TYPES, read_published

NUM_CLASSES = {"mnist": 10, "fashion_mnist": 10, "kmnist": 10, "cifar10": 10, "cifar100": 100}
NUM_CLASSES |= {"cifar10_1": 10, "cifar10_2": 10}
# BlockRR with a fixed l, other ways to learn from randomized response, and what others ran.
VARIANTS = {f"blockrr_l{favoured}" for favoured in range(7)}
VARIANTS |= {"rr_unbiased", "rr_retrain_all", "rr_retrain_consensus", "dp_sgd"}
# Of the literature on noisy labels.
VARIANTS |= {"cross_entropy", "f_correction", "dividemix", "elr_plus", "augdesc", "c2d", "ssr_plus"}


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
    assert rows["std"].dropna().between(0.05, 6).all()  # in percent, as the values are
    assert set(rows.metric) <= {
        "accuracy", "per_class_mean", "class_accuracy", "response_accuracy", "relative_gain"
    }  # fmt: skip
    assert (rows.usable | (rows.note != "")).all()
    key = ["paper", "table", "dataset", "method", "eps", "class", "metric"]
    assert not rows.duplicated(key).any()


def test_text_is_as_printed():
    # Trailing zeros carry the precision that the paper claims; a spreadsheet would drop them.
    for path in PUBLISHED.glob("*.csv"):
        text = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert text.value.str.fullmatch(r"\d{1,2}(\.\d{1,2})?").all(), path.name
        assert text.eps.map(lambda eps: f"{float(eps):g}").equals(text.eps), path.name
        assert not path.read_bytes().count(b"\r"), path.name


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
    with pytest.raises(InputError, match="no published"):
        read_published(folder=tmp_path)
    for damaged in ({"header": "paper,table"}, {"rows": [GOOD.replace("95.3", "9x")]}):
        write(tmp_path, *damaged.pop("rows", [GOOD]), **damaged)
        with pytest.raises(InputError, match=r"p\.csv"):
            read_published("p", folder=tmp_path)
    with pytest.raises(InputError, match=r"'blockr'.*blockrr"):
        read_published("blockr")
