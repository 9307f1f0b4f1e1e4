"""Estimate how good a model is, from releases alone.

Example:
  labeldp evaluate test.csv --release survey.release.parquet --model model.skops --row-id person

FEATURES must hold rows that the model was not fitted to: fit it to a part of the rows, and evaluate
it on the others. Needs no true label and spends no privacy. Prints every metric with its 95 %
interval, and writes a picture: calibration and ROC curves, with the interval at each point.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from labeldp.cli.arguments import add_table, check_new, printable
from labeldp.support.validate import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from labeldp.release import Release


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser, "FEATURES", "the column that `release --row-id` named")
    parser.add_argument("--release", type=Path, required=True, metavar="RELEASE.parquet",
                        help="the file that `labeldp release` wrote")  # fmt: skip
    parser.add_argument("--model", type=Path, required=True, metavar="MODEL.skops",
                        help="the file that `labeldp fit` wrote")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("evaluation.png"), metavar="PICTURE",
                        help="ends in .png, .pdf or .svg; default evaluation.png")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints the table and writes the picture."""
    read = (given.file, given.release, given.model)
    check_new(given.out, ".png", ".pdf", ".svg", replace=True, read=read)
    from labeldp.evaluation import draw, evaluated, table_of
    from labeldp.manifest import unprotected

    release, scores, persons, matched = held_out(given)
    print(f"{len(release):,} releases (eps={release.eps_spent:g} spent); {matched}")
    if (why := unprotected(release.manifest)) is not None:
        print(why)
    table = table_of(evaluated(release, scores, persons))
    table["metric"] = table.metric.map(printable)
    print(table.to_string(index=False, justify="left"))
    draw(release, scores, given.out)
    print(f"wrote {given.out}")
    return 0


class MatchedRows(NamedTuple):
    """Rows that a model was not fitted to.

    Attributes:
        release: of N rows.
        scores: the model's probabilities, (N, K).
        persons: (N,), whose row each is; None: nobody has two, or nobody can say.
        matched: how rows of features and releases were matched, in words.
    """

    release: "Release"
    scores: "NDArray[np.float64]"
    persons: "NDArray | None"
    matched: str


def held_out(given: argparse.Namespace) -> MatchedRows:
    """Returns releases with what a model says of their rows.

    Args:
        given: file (features), separator, release, model, row_id.

    Raises:
        InputError: rows were used in the fit, or do not fit to each other.
    """
    from labeldp.cli.fit import check_names, matched_rows, persons_of
    from labeldp.cli.predict import features_for, probabilities_of
    from labeldp.estimates import check_classes_released
    from labeldp.io.tables import TableFile
    from labeldp.models import load_model
    from labeldp.release import load_release
    from labeldp.rows import refuse_fitted_rows

    model, release = load_model(given.model), load_release(given.release)
    check_classes_released(release)
    if model[-1].classes_.tolist() != release.classes:
        raise InputError(f"{given.model} has other classes than {given.release}")
    check_names(release, given)
    file = TableFile(given.file, given.separator)
    plain = features_for(model, file)
    places, release, matched = matched_rows(file, len(plain), release, given)
    try:
        refuse_fitted_rows(model, release)
    except InputError as error:  # whose remedy is for Python
        what = str(error).partition(" (")[0]
        raise InputError(f"{what} (fit to a part of the rows, evaluate on the others)") from None
    persons = persons_of(file, places, release)
    scores = probabilities_of(model, plain.iloc[places].reset_index(drop=True), str(given.file))
    return MatchedRows(release, scores, persons, matched)
