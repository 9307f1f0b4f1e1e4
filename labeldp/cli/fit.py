r"""Train a model from features and a release of the labels.

Example:
  labeldp fit features.csv --release survey.release.parquet --row-id person --out model.skops
  labeldp fit features.csv --release survey.release.parquet --row-id person \
      --model boosted_trees --out trees.skops

Rows are matched by --row-id, and those that are on one side only are left out; without ids they are
matched by position. Prints the accuracy to expect on new rows, and that of always naming the most
frequent class, each with a 95 % interval. Both are estimated from releases only: models fitted to
four fifths of the rows are tried on the rest. If the release counts persons (`release --unit
COLUMN`) and FEATURES has that column, the rows of a person are held out together, and the column
is no feature. This spends no privacy, so try both models and keep the better one: --model linear,
or boosted_trees, both by the marginal likelihood of the release. MODEL.skops holds no pickle and
runs no code when it is read.
"""

import argparse
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.cli.arguments import add_table, check_new
from labeldp.names import class_text, printable
from labeldp.support.validate import InputError, check_choice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.estimates import Estimate
    from labeldp.models import HeldOut
    from labeldp.release import Release


MODEL_NAMES = {"linear": "linear model", "boosted_trees": "boosted trees"}
"""What the output calls each model."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser, "FEATURES", "the column that `release --row-id` named")
    parser.add_argument("--release", type=Path, required=True, metavar="RELEASE.parquet",
                        help="the file that `labeldp release` wrote")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL.skops",
                        help="the file to write")  # fmt: skip
    parser.add_argument(
        "--model", default="linear", metavar="NAME", help="linear (default) or boosted_trees"
    )
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN",
                        help="a column that is no feature; may be given several times")  # fmt: skip
    parser.add_argument("--keep", action="append", default=[], metavar="COLUMN",
                        help="a feature though it looks like row numbers or names")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Fits, estimates, writes the model."""
    check_new(given.out, ".skops", replace=True, read=(given.file, given.release))
    check_choice("--model", given.model, MODEL_NAMES)
    from labeldp.io.tables import TableFile
    from labeldp.matching import rows_for_fit
    from labeldp.models import cross_validated, model_for, save_model
    from labeldp.release import load_release
    from labeldp.suspects import suspects_of_fit

    release = load_release(given.release)
    if not release.classes:
        raise InputError(
            f"{given.release} is a release of numbers, which labeldp.LabelDPRegressor "
            "takes (Python only)"
        )
    release, table, persons, note = rows_for_fit(
        TableFile(given.file, given.separator), release, given.release, given.row_id,
        drop=given.drop, keep=given.keep,
    )  # fmt: skip
    model = model_for(table, given.model)
    for suspect in suspects_of_fit(table, release, given.keep):
        warnings.warn(suspect, stacklevel=1)
    found = cross_validated(model, table, release, persons)
    if found.unknown:
        warnings.warn(
            f"some categories of {', '.join(map(printable, found.unknown))} are in a fifth of the "
            "rows alone: a model that does not know them takes them for a rare one",
            stacklevel=1,
        )
    model.fit(table, release)
    save_model(model, given.out)
    print(
        f"{MODEL_NAMES[given.model]} of {len(release.classes)} classes from {len(release):,} "
        f"releases (eps={release.eps_spent:g} spent), {len(table.columns)} columns"
    )
    print(note)
    _print_accuracy(found, release, persons, given)
    print(f"wrote {given.out}")
    return 0


def _print_accuracy(
    found: "HeldOut", release: "Release", persons: "NDArray | None", given: argparse.Namespace
) -> None:
    """Prints the accuracy to expect, that of the most frequent class, and which is better."""
    from labeldp.manifest import unprotected

    if (why := unprotected(release.manifest)) is not None:
        print(why)
    estimate = found.accuracy
    if estimate.low <= 1 / len(release.classes) and estimate.high == 1:
        print(
            f"accuracy on new rows: nothing can be said from {len(release):,} releases at "
            f"eps={release.manifest.row_eps:g}, anything from guessing to certainty is possible"
        )
        print("next: more rows or a larger eps (labeldp plan says what to expect)")
        return
    print(f"accuracy on new rows, from releases alone: {estimate.value:.1%} "
          f"(95 % interval {estimate.low:.1%} to {estimate.high:.1%})")  # fmt: skip
    unit = release.manifest.unit
    if persons is None and unit is not None and unit.most_rows > 1:
        print(f"that may be too high: {given.file} has no column {printable(unit.column)}, so that "
              "a model is tried on persons of whom it knows other rows")  # fmt: skip
    usual, always = printable(class_text(found.usual)), found.accuracy_of_usual
    print(f"always saying {usual}: {always.value:.1%} "
          f"(95 % interval {always.low:.1%} to {always.high:.1%})")  # fmt: skip
    _print_verdict(found.gain, usual, len(release), given)


SMALL_GAIN = 0.01
"""Gain in accuracy that is too small to use a model for."""


def _print_verdict(gain: "Estimate", usual: str, size: int, given: argparse.Namespace) -> None:
    """Prints whether the model is better than the most frequent class, and what to do next."""
    points = (f"{100 * gain.value:+.1f} points, 95 % interval {100 * gain.low:+.1f} to "
              f"{100 * gain.high:+.1f}")  # fmt: skip
    other = "linear" if given.model == "boosted_trees" else "boosted_trees"
    if gain.low > 0:
        ids = "" if given.row_id is None else f" --row-id {given.row_id}"
        verdict = "yes"
        advice = f"labeldp predict FEATURES --model {given.out}{ids} --out FILE.csv"
    elif gain.high <= SMALL_GAIN:
        verdict = "no"
        advice = f"other columns, or --model {other}; more rows like these will not help"
    else:
        verdict, advice = "cannot be told", f"more rows, a larger eps, or --model {other}"
        reach = (gain.high - gain.low) / 2
        if gain.value > reach / 5:
            needed = math.ceil(size * (reach / gain.value) ** 2)
            advice = f"about {needed:,} rows would tell, if the difference stays; {advice}"
    if gain.low <= 0 and given.row_id is None:  # nothing else would show that rows are mixed up
        advice = (
            f"make sure that the rows of {given.file} are in the order of the file that was "
            "released, as they are matched by position (`release --row-id COLUMN` gives them "
            f"names to be matched by); if they are: {advice}"
        )
    print(f"better than always saying {usual}: {verdict} ({points})")
    print(f"next: {advice}")
