"""Predict classes and their probabilities for rows of features.

Example:
  labeldp predict features.csv --model model.skops --out predictions.csv

Writes for each row of FEATURES its id, the most likely class, and a column p_NAME with the
probability of each class NAME.
"""

import argparse
import warnings
from pathlib import Path

import pandas as pd
from numpy.typing import NDArray

from labeldp.cli.arguments import check_new
from labeldp.cli.people import read_people, row_ids_of
from labeldp.support.validate import InputError, did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "file", type=Path, metavar="FEATURES", help="CSV, TSV or Parquet, with a header"
    )
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL.skops",
                        help="the file that `labeldp fit` wrote")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="PREDICTIONS.csv",
                        help="the file to write; .parquet is possible too")  # fmt: skip
    parser.add_argument(
        "--row-id",
        metavar="COLUMN",
        help="a column that names each row; default: rows are counted from 0",
    )


def run(given: argparse.Namespace) -> int:
    """Writes the predictions."""
    check_new(given.out, ".csv", ".parquet", replace=True, read=(given.file, given.model))
    from labeldp.io.cells import check_finite, check_numbers
    from labeldp.io.files import as_written
    from labeldp.models import (
        columns_of,
        load_model,
        numbers_of,
        readable,
        unknown_categories,
    )
    from labeldp.support.files import replacing

    model = load_model(given.model)
    table = read_people(given.file, given.row_id)
    ids = _ids_as_written(table, given)
    file, columns = str(given.file), columns_of(model)
    for name in columns:
        if name not in table.columns:
            raise InputError(f"{file} has no column {name}, which the model needs"
                             f"{did_you_mean(name, list(table.columns))}")  # fmt: skip
    numbers = numbers_of(model)
    # Of few rows a category may look like a number, or a truth value.
    table = as_written(given.file, table, [name for name in columns if name not in numbers])
    table = check_numbers(file, table, numbers, ", which the model needs")
    check_finite(file, table[numbers])
    plain = readable(table, model)
    for name, (cells, counts_as) in unknown_categories(model, plain).items():
        warnings.warn(
            f"{file}, column {name}: {len(cells):,} of {len(plain):,} rows have a category that "
            f"no row of the fit had, such as {cells.iloc[0]!r} in row {cells.index[0] + 1}: it "
            f"counts as {counts_as}",
            stacklevel=1,
        )
    with warnings.catch_warnings():  # of unknown categories, in words that name no column
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        probabilities = model.predict_proba(plain)
    classes = model[-1].classes_
    found = pd.DataFrame(
        {"row": ids, "predicted": classes[probabilities.argmax(1)]}
        | {f"p_{name}": probabilities[:, number] for number, name in enumerate(classes)}
    )
    with replacing(given.out) as partial:
        if given.out.suffix == ".csv":
            # Six digits are for probabilities: 1234567.0 is a row id, or a class.
            names = found[["row", "predicted"]].select_dtypes("floating").columns
            plain = found.astype(dict.fromkeys(names, object))
            plain.to_csv(partial, index=False, float_format="%.6g")
        else:
            found.to_parquet(partial, index=False)
    print(f"wrote {given.out}: {len(found):,} rows")
    return 0


def _ids_as_written(table: pd.DataFrame, given: argparse.Namespace) -> NDArray:
    """Returns the row ids as the file has them: 007 is found again by its zeros only."""
    from labeldp.io.files import as_written

    ids = row_ids_of(table, given.row_id, given.file)
    if given.row_id is None:
        return ids
    texts = as_written(given.file, table, [given.row_id])[given.row_id].to_numpy()
    are_same = (texts.astype(str) == ids.astype(str)).all()
    return ids if are_same else texts  # numbers stay numbers, in Parquet too
