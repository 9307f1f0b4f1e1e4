"""Predict classes and their probabilities for rows of features.

Example:
  labeldp predict features.csv --model model.skops --out predictions.csv

Writes for each row of FEATURES its id, the most likely class, and a column p_NAME with the
probability of each class NAME.
"""

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.cli.arguments import ROW_ID, add_table, check_new, printable
from labeldp.support.validate import InputError, did_you_mean

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from labeldp.io.tables import TableFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser, "FEATURES", ROW_ID)
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL.skops",
                        help="the file that `labeldp fit` wrote")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="PREDICTIONS.csv",
                        help="the file to write; .parquet is possible too")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Writes the predictions."""
    check_new(given.out, ".csv", ".parquet", replace=True, read=(given.file, given.model))
    from labeldp.io.tables import TableFile
    from labeldp.models import load_model
    from labeldp.support.files import replacing

    model = load_model(given.model)
    table = TableFile(given.file, given.separator)
    plain = features_for(model, table)
    ids = np.arange(len(plain))
    if given.row_id is not None:
        ids = table.read_names("--row-id", given.row_id, are_distinct=True)
    probabilities = probabilities_of(model, plain, str(given.file))
    classes = model[-1].classes_
    found = pd.DataFrame(
        {"row": ids, "predicted": classes[probabilities.argmax(1)]}
        | {f"p_{name}": probabilities[:, number] for number, name in enumerate(classes)}
    )
    with replacing(given.out) as partial:
        if given.out.suffix == ".csv":
            # Six digits are for probabilities, not for a class such as 1234567.0.
            names = found[["predicted"]].select_dtypes("floating").columns
            plain = found.astype(dict.fromkeys(names, object)).map(in_spreadsheet)
            plain.columns = [in_spreadsheet(name) for name in found.columns]
            plain.to_csv(partial, index=False, float_format="%.6g")
        else:
            found.to_parquet(partial, index=False)
    print(f"wrote {given.out}: {len(found):,} rows")
    return 0


def features_for(model: "Pipeline", table: "TableFile") -> pd.DataFrame:
    """Returns the columns that a fitted model needs.

    Raises:
        InputError: the table lacks one, or it holds something else than in the fit.
    """
    from labeldp.models import columns_of, numbers_of

    columns, numbers = columns_of(model), numbers_of(model)
    for name in columns:
        if name not in table.names:
            raise InputError(f"{table.path} has no column {name}, which the model needs"
                             f"{did_you_mean(name, table.names)}")  # fmt: skip
    return table.features(
        names=columns,
        numbers=numbers,
        # Of few rows a category may look like a number, or a truth value.
        categories=set(columns) - set(numbers),
        advice=", which the model needs",
    )


def probabilities_of(model: "Pipeline", plain: pd.DataFrame, file: str) -> NDArray[np.float64]:
    """Returns class probabilities, (N, K); warns of categories that no row of the fit had."""
    from labeldp.models import unknown_categories

    for name, (cells, counts_as) in unknown_categories(model, plain).items():
        warnings.warn(
            f"{file}, column {name}: {len(cells):,} of {len(plain):,} rows have a category that "
            f"no row of the fit had, such as {cells.iloc[0]!r} in row {cells.index[0] + 1}: it "
            f"counts as {counts_as}",
            stacklevel=1,
        )
    # Warnings of unknown categories name no column; numbers that overflow are an error below.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.filterwarnings("ignore", "Found unknown categories", UserWarning)
        try:
            found = np.asarray(model.predict_proba(plain))
        except InputError:
            raise
        except ValueError:  # of scikit-learn
            found = np.array(np.nan)
    if not np.isfinite(found).all():
        raise InputError(f"{file} cannot be predicted: the model's numbers overflow (fit again)")
    return found


def in_spreadsheet(cell: object) -> object:
    """Returns a cell that no spreadsheet takes for a formula.

    Class names come from whoever wrote the release.
    """
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    if not text.startswith(("=", "+", "-", "@")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
