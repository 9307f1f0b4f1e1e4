"""Train a model from features and a release of the labels.

Example:
  labeldp fit features.csv --release survey.release.parquet --out model.skops
  labeldp fit features.csv --release survey.release.parquet --model boosted_trees --out trees.skops

Prints the accuracy to expect on new rows, and beside it that of always naming the most frequent
class, each with a 95 % interval. Both are estimated from releases alone: models fitted to four
fifths of the rows are tried on the rest. If the release counts persons (`labeldp release --unit
COLUMN`) and FEATURES has that column, the rows of a person are held out together. This spends no
privacy, so try both models and keep the better one. --model logistic is linear, fitted by the
marginal likelihood of the release. --model boosted_trees is scikit-learn's
HistGradientBoostingClassifier, fitted by EM. MODEL.skops holds no pickle and runs no code when it
is read. The Python library has more models (docs/your-own-labels.md).
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labeldp.cli.arguments import check_new
from labeldp.cli.people import NO_CATEGORY, column_of, read_people, row_ids_of
from labeldp.support.validate import InputError, check_choice

if TYPE_CHECKING:
    import pandas as pd

    from labeldp.release import Release


SAID = {"logistic": "linear model", "boosted_trees": "boosted trees"}
"""What the output calls each model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "file", type=Path, metavar="FEATURES", help="CSV, TSV or Parquet, with a header"
    )
    parser.add_argument("--release", type=Path, required=True, metavar="RELEASE.parquet",
                        help="the file that `labeldp release` wrote")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL.skops",
                        help="the file to write")  # fmt: skip
    parser.add_argument("--model", default="logistic", metavar="NAME",
                        help="logistic (default) or boosted_trees")  # fmt: skip
    parser.add_argument(
        "--row-id", metavar="COLUMN", help="the column that `release --row-id` named"
    )
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN",
                        help="a column that is no feature; may be given several times")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Fits, estimates, writes the model."""
    check_new(given.out, ".skops", replace=True, read=(given.file, given.release))
    check_choice("--model", given.model, SAID)
    from labeldp.estimates import class_shares
    from labeldp.io.cells import check_finite
    from labeldp.io.columns import numeric_columns
    from labeldp.io.files import as_written
    from labeldp.load import load_release
    from labeldp.manifest import unprotected
    from labeldp.models import cross_validated, model_for, readable, save_model

    release = load_release(given.release)
    if not release.classes:
        raise InputError(
            f"{given.release} is a release of numbers, which labeldp.LabelDPRegressor "
            "takes (Python only)"
        )
    _check_names(release, given)
    table = read_people(given.file, given.row_id)
    ids = row_ids_of(table, given.row_id, given.file)
    whole = table
    for name in given.drop:
        column_of(table, name, "--drop", given.file)
    table = table.drop(columns=[*given.drop, *([given.row_id] if given.row_id else [])])
    if release.manifest.source in table.columns:
        raise InputError(
            f"{given.file} has the column {release.manifest.source}, which is what the release "
            f"keeps secret (hand over features without it, or give --drop "
            f"{release.manifest.source})"
        )
    if not len(table.columns):
        raise InputError(f"{given.file} has no feature left")
    places = _places(ids, release, given)
    persons = _persons(whole, places, release)
    # As `predict` reads them: pandas makes True of true where all other cells are empty.
    numbers = numeric_columns(table)
    table = as_written(given.file, table, [name for name in table if name not in numbers])
    check_finite(str(given.file), table, NO_CATEGORY)
    table = readable(table.iloc[places].reset_index(drop=True))
    model = model_for(table, given.model)
    estimate = cross_validated(model, table, release, persons)
    model.fit(table, release)
    save_model(model, given.out)
    print(f"{SAID[given.model]} of {len(release.classes)} classes from {len(release):,} releases "
          f"(eps={release.eps_spent:g} spent), {len(table.columns)} columns")  # fmt: skip
    if (why := unprotected(release.manifest)) is not None:
        print(why)
    print(f"accuracy on new rows, from releases alone: {estimate.value:.1%} "
          f"(95 % interval {estimate.low:.1%} to {estimate.high:.1%})")  # fmt: skip
    unit = release.manifest.unit
    if persons is None and unit is not None and unit.most_rows > 1:
        print(f"that may be too high: {given.file} has no column {unit.column}, so that a model is "
              "tried on persons of whom it knows other rows")  # fmt: skip
    if estimate.low <= 1 / len(release.classes) and estimate.high == 1:
        print("that is anything from guessing to certainty: too few rows for this eps (labeldp "
              "plan says what to expect)")  # fmt: skip
    shares = class_shares(release, persons=persons)
    name = max(shares, key=lambda each: shares[each].value)
    print(f"always saying {name}: {shares[name].value:.1%} "
          f"(95 % interval {shares[name].low:.1%} to {shares[name].high:.1%})")  # fmt: skip
    print(f"wrote {given.out}")
    return 0


def _check_names(release: "Release", given: argparse.Namespace) -> None:
    """Refuses rows that are named another way than the release's: they would be mixed up unseen.

    A column may have another name here, and of a release from Python nobody knows it.
    """
    from labeldp.manifest import GIVEN

    theirs = release.manifest.row_id
    if theirs and theirs != GIVEN and given.row_id is None:
        raise InputError(
            f"the rows of {given.release} are named by the column {theirs} (give --row-id {theirs})"
        )
    if theirs == "" and given.row_id is not None:
        raise InputError(
            f"the rows of {given.release} are counted from 0, in the order of the file that was "
            f"released (leave --row-id out; --drop {given.row_id} leaves that column out too)"
        )


def _places(ids: NDArray, release: "Release", given: argparse.Namespace) -> NDArray[np.int64]:
    """Returns where each row of the release is in the table, (N,)."""
    position = {each: row for row, each in enumerate(ids.astype(str).tolist())}
    wanted = release.row_ids.astype(str).tolist()
    missing = [each for each in wanted if each not in position]
    if missing:
        raise InputError(
            f"{given.file} lacks {len(missing):,} of the {len(wanted):,} rows of {given.release}, "
            f"such as row id {missing[0]} (is it the same table, and does --row-id name the "
            "same ids?)"
        )
    return np.array([position[each] for each in wanted])


def _persons(
    table: "pd.DataFrame", places: NDArray[np.int64], release: "Release"
) -> NDArray | None:
    """Returns whose row each of the release is, (N,); None: nobody has two, or nobody can say."""
    unit = release.manifest.unit
    if unit is None or unit.most_rows == 1 or unit.column not in table.columns:
        return None
    return table[unit.column].to_numpy()[places]
