"""Predict classes and their probabilities for rows of features.

Example:
  labeldp predict features.csv --model model.skops --out predictions.csv

Writes a row for each row of features: its id, the class, the probability of each class.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp_bench.cli.labeldp.arguments import check_new
from labeldp_bench.support.validate import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FEATURES", help="CSV or Parquet, a header")
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL.skops")
    parser.add_argument("--out", type=Path, required=True, metavar="PREDICTIONS.csv")
    parser.add_argument("--row-id", metavar="COLUMN", help="names rows; default: their number")


def run(given: argparse.Namespace) -> int:
    """Writes the predictions."""
    suffix = ".parquet" if given.out.suffix == ".parquet" else ".csv"
    check_new(given.out, suffix, replace=True)
    from labeldp_bench.own_labels.models import load_model
    from labeldp_bench.own_labels.tables import read_people, row_ids_of
    from labeldp_bench.support.files import replacing

    model = load_model(given.model)
    table = read_people(given.file)
    ids = row_ids_of(table, given.row_id, given.file)
    columns = model["columns"].feature_names_in_.tolist()
    for name in columns:
        if name not in table.columns:
            raise InputError(f"{given.file} has no column {name}, which the model needs")
    for name in _numbers(model, columns):
        wrong = pd.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
        for row in np.flatnonzero(wrong)[:1]:
            raise InputError(
                f"{given.file}, row {row}, column {name}: {table[name].iloc[row]!r} is no number"
            )
        table[name] = pd.to_numeric(table[name])
    probabilities = model.predict_proba(table[columns])
    classes = model[-1].classes_
    found = pd.DataFrame(
        {"row": ids, "predicted": classes[probabilities.argmax(1)]}
        | {f"p_{name}": probabilities[:, number] for number, name in enumerate(classes)}
    )
    with replacing(given.out) as partial:
        if suffix == ".csv":
            found.to_csv(partial, index=False, float_format="%.6g")
        else:
            found.to_parquet(partial, index=False)
    print(f"wrote {given.out}: {len(found):,} rows")
    return 0


def _numbers(model: object, columns: list[str]) -> list[str]:
    """Returns the columns that the model takes as numbers."""
    parts = {name: own for name, _, own in model["columns"].transformers_}  # type: ignore[index]
    return [name for name in columns if name in parts.get("numbers", [])]
