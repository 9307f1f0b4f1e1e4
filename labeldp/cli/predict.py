"""Predict classes and their probabilities for rows of features.

Example:
  labeldp predict features.csv --model model.skops --row-id person --out predictions.csv

Writes for each row of FEATURES its id, the most likely class, and a column p_NAME with the
probability of each class NAME.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from labeldp.cli.arguments import ROW_ID, add_table, check_new
from labeldp.names import class_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser, "FEATURES", ROW_ID)
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL.skops",
                        help="the file that `labeldp fit` wrote")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="PREDICTIONS.csv",
                        help="the file to write; .parquet is possible too")  # fmt: skip
    parser.add_argument("--spreadsheet", action="store_true",
                        help="put ' before texts that a spreadsheet would take for formulas; other "
                        "programs then find them changed")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Writes the predictions."""
    check_new(given.out, ".csv", ".parquet", replace=True, read=(given.file, given.model))
    from labeldp.io.tables import TableFile
    from labeldp.matching import features_for, probabilities_of
    from labeldp.models import load_model
    from labeldp.support.files import replacing
    from labeldp.suspects import codes_in

    model = load_model(given.model)
    table = TableFile(given.file, given.separator)
    features = features_for(model, table)
    for name, code, count in codes_in(features):
        warnings.warn(
            f"column {name} has {code:.0f} in {count:,} rows, far from its other numbers: if it "
            "stands for a missing value, leave those cells empty",
            stacklevel=1,
        )
    ids = np.arange(len(features))
    if given.row_id is not None:
        ids = table.read_names("--row-id", given.row_id, are_distinct=True)
    probabilities = probabilities_of(model, features, given.file)
    names = np.array(list(map(class_text, model[-1].classes_.tolist())), dtype=object)
    found = pd.DataFrame(
        {"row": ids, "predicted": names[probabilities.argmax(1)]}
        | {f"p_{name}": probabilities[:, number] for number, name in enumerate(names)}
    )
    formulas = [cell for cell in (*names, *ids.tolist()) if _is_formula(cell)]
    if given.spreadsheet:
        found = found.map(lambda cell: f"'{cell}" if _is_formula(cell) else cell)
    with replacing(given.out) as partial:
        if given.out.suffix == ".csv":
            found.to_csv(partial, index=False, float_format="%.6g")
        else:
            found.to_parquet(partial, index=False)
    print(f"wrote {given.out}: {len(found):,} rows")
    if formulas and not given.spreadsheet:
        warnings.warn(
            f"a spreadsheet takes {formulas[0]} for a formula (to open the file in one: "
            "--spreadsheet puts ' before such cells)",
            stacklevel=1,
        )
    return 0


def _is_formula(cell: object) -> bool:
    """Returns whether a spreadsheet takes a cell for a formula.

    Class names come from whoever wrote the release.
    """
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False
