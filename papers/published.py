"""Numbers that papers print, as data: one CSV per paper. Imports no torch."""

from pathlib import Path

import pandas as pd

from labeldp.support.validate import SMALLEST_EPS, InputError, check_choice
from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.compose import mechanism_names
from labeldp_bench.support.checkout import CHECKOUT

PUBLISHED = CHECKOUT / "results" / "published"
TYPES = {
    "paper": "str", "table": "str", "dataset": "str", "method": "str", "class": "Int64",
    "eps": "float64", "metric": "str", "value": "float64", "std": "float64", "usable": "bool",
    "note": "str",
}  # fmt: skip
"""Columns of every CSV and their types once loaded."""
KEY = ["table", "dataset", "method", "eps", "class", "metric"]
"""Columns that name a number of a paper."""
DATASETS = {name: official.num_classes for name, official in OFFICIAL.items()}
DATASETS |= dict.fromkeys(("cifar10_1", "cifar10_2"), DATASETS["cifar10"])
"""Data sets and their numbers of classes."""
METRICS = ("accuracy", "per_class_mean", "class_accuracy", "response_accuracy")
VARIANTS = (
    *(f"blockrr_l{favoured}" for favoured in range(7)),
    "rr_unbiased", "rr_retrain_all", "rr_retrain_consensus", "dp_sgd",
)  # fmt: skip
"""Methods that are no mechanism's default recipe: BlockRR with a fixed `favoured`, randomized
response with unbiased targets or retrained on its own predictions (all, or where they agree with
the release), and DP-SGD, which only other papers run."""
TABLE = r"\d+[a-z]?(\+\d+[a-z]?)*|text|unknown"
"""`1a`; `4+5`: one of these; `text`: a sentence of the paper; `unknown`: not recorded."""


def read_published(*papers: str, folder: Path = PUBLISHED) -> pd.DataFrame:
    """Returns the numbers printed in `papers` (all papers if none is named), checked.

    Columns and types are those of `TYPES`: `class` is missing outside per-class tables, `std`
    where the paper gives none; `value` and `std` are in percent; `eps` may be infinite.

    Args:
        papers: names of CSV files in `folder`, without the ending.
        folder: where the CSV files lie.

    Raises:
        InputError: an unknown paper, or a file that breaks a rule of its README.
    """
    known = sorted(path.stem for path in folder.glob("*.csv"))
    if not known:
        raise InputError(f"no published tables (*.csv) in {folder}")
    names = [check_choice("paper", paper, known) for paper in papers] or known
    return pd.concat([_read(folder / f"{name}.csv") for name in names], ignore_index=True)


def _read(path: Path) -> pd.DataFrame:
    """Returns the rows of one CSV; a message names file, line and column."""
    try:
        text = pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:  # among them fields that are too many
        raise InputError(f"{path.name}: {error}") from None
    if list(text) != list(TYPES) or not isinstance(text.index, pd.RangeIndex):  # one field more
        raise InputError(f"{path.name} line 1: columns must be {','.join(TYPES)}")
    number = text[["class", "eps", "value", "std"]].apply(pd.to_numeric, errors="coerce")
    of_class = text.metric == "class_accuracy"
    is_class = (number["class"] >= 0) & (number["class"] < text.dataset.map(DATASETS))
    rules = {
        "paper": text.paper == path.stem,
        "table": text.table.str.fullmatch(TABLE),
        "dataset": text.dataset.isin([*DATASETS]),
        "method": text.method.isin([*mechanism_names(), *VARIANTS]),
        "class": is_class.where(of_class, text["class"] == ""),
        "eps": number.eps >= SMALLEST_EPS,
        "metric": text.metric.isin(METRICS),
        "value": number.value.between(0, 100),
        "std": number["std"].between(0, 100) | (text["std"] == ""),
        "usable": text.usable.isin(["true", "false"]),
        "note": (text.usable == "true") | (text.note != ""),
        "table, with the same method, eps and metric,": ~text.duplicated(KEY),
    }
    for column, good in rules.items():
        for row in text.index[~good.astype(bool)][:1]:
            value = text.loc[row, column.partition(",")[0]]
            raise InputError(f"{path.name} line {row + 2}: {column} cannot be {value!r}")
    return text.assign(**number, usable=text.usable == "true").astype(TYPES)
