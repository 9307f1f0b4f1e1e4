"""Numbers that papers print, as data: one CSV per paper. Imports no torch."""

import csv
import re
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp.support.validate import (
    InputError,
    check_choice,
    check_eps,
    check_integer,
    check_number,
)
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

TABLE = re.compile(r"\d+[a-z]?(\+\d+[a-z]?)*|text|unknown")
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
    rows = [row for name in names for row in _read(folder / f"{name}.csv")]
    return pd.DataFrame(rows, columns=list(TYPES)).astype(TYPES)


def _read(path: Path) -> list[dict[str, Any]]:
    """Returns the checked rows of one CSV; a message names file and line."""
    rows: list[dict[str, Any]] = []
    previous: tuple[Any, ...] | None = None
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        try:
            if next(reader, []) != list(TYPES):
                raise InputError(f"columns must be {','.join(TYPES)}")
            for fields in reader:
                if len(fields) != len(TYPES):
                    raise InputError(f"a row must have {len(TYPES)} fields, got {len(fields)}")
                row = _typed(dict(zip(TYPES, fields, strict=True)), path.stem)
                key = _sort_key(row)
                if previous is not None and key <= previous:
                    problem = "repeats" if key == previous else "must come before"
                    raise InputError(f"this row {problem} the row above")
                previous = key
                rows.append(row)
        except (InputError, csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path.name} line {max(reader.line_num, 1)}: {error}") from None
    return rows


def _typed(text: dict[str, str], paper: str) -> dict[str, Any]:
    """Returns one row with types, or refuses the first value that is not allowed."""
    check_choice("paper", text["paper"], [paper])
    if not TABLE.fullmatch(text["table"]):
        raise InputError(f"table must read like 1a, 4+5, text or unknown, got {text['table']!r}")
    check_choice("dataset", text["dataset"], DATASETS)
    check_choice("method", text["method"], (*mechanism_names(), *VARIANTS))
    check_choice("metric", text["metric"], METRICS)
    row: dict[str, Any] = dict(text)
    row["class"] = None
    if text["metric"] == "class_accuracy":
        highest = DATASETS[text["dataset"]] - 1
        row["class"] = check_integer("class", _number(text["class"], int), low=0, high=highest)
    elif text["class"]:
        raise InputError(f"class must be empty for {text['metric']}, got {text['class']!r}")
    row["eps"] = check_eps(_number(text["eps"], float))
    row["value"] = check_number("value", _number(text["value"], float), low=0, high=100)
    row["std"] = None
    if text["std"]:
        row["std"] = check_number("std", _number(text["std"], float), low=0, high=100)
    row["usable"] = check_choice("usable", text["usable"], ("true", "false")) == "true"
    if not row["usable"] and not text["note"]:
        raise InputError("a row that is not usable must say why in note")
    return row


def _number(text: str, kind: type[int] | type[float]) -> object:
    """Returns `text` as a number, or as it is for a check to refuse."""
    try:
        return kind(text)
    except ValueError:
        return text


def _sort_key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Returns what orders the rows and must be unique; table 4 comes before table 10."""
    numbers = [int(number) for number in re.findall(r"\d+", row["table"])]
    number_of_class = -1 if row["class"] is None else row["class"]
    return (
        not numbers, numbers, row["table"], row["dataset"], row["method"], row["eps"],
        number_of_class, row["metric"],
    )  # fmt: skip
