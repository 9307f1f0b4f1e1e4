"""Train a model from features and a release of the labels.

Example:
  labeldp fit features.csv --release survey.release.parquet --out model.skops

Prints the accuracy to be expected on new rows, with a 95 % interval, from releases alone: models
fitted to four fifths of the rows are tried on the rest. It needs no label and spends no privacy.
"""

import argparse
from pathlib import Path

import numpy as np

from labeldp_bench.cli.labeldp.arguments import check_new
from labeldp_bench.support.validate import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FEATURES", help="CSV or Parquet, a header")
    parser.add_argument("--release", type=Path, required=True, metavar="RELEASE.parquet")
    parser.add_argument("--out", type=Path, required=True, metavar="MODEL.skops")
    parser.add_argument("--row-id", metavar="COLUMN", help="as for `release`; no feature")
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN",
                        help="a column that is no feature; may be given several times")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Fits, estimates, writes the model."""
    check_new(given.out, ".skops", replace=True)
    from labeldp_bench.own_labels.load import load_release
    from labeldp_bench.own_labels.models import cross_validated, model_for, save_model
    from labeldp_bench.own_labels.tables import column_of, read_people, row_ids_of

    release = load_release(given.release)
    if not release.classes:
        raise InputError(f"{given.release} is a release of numbers (use ldp.LabelDPRegressor)")
    table = read_people(given.file)
    ids = row_ids_of(table, given.row_id, given.file)
    for name in given.drop:
        column_of(table, name, given.file)
    table = table.drop(columns=[*given.drop, *([given.row_id] if given.row_id else [])])
    if release.manifest.source in table.columns:
        raise InputError(
            f"{given.file} has the column {release.manifest.source}, which is what the release "
            f"keeps secret (hand over features without it, or give --drop "
            f"{release.manifest.source})"
        )
    if not len(table.columns):
        raise InputError(f"{given.file} has no feature left")
    position = {each: row for row, each in enumerate(ids.astype(str).tolist())}
    wanted = release.row_ids.astype(str).tolist()
    missing = [each for each in wanted if each not in position]
    if missing:
        raise InputError(
            f"{given.file} lacks the row {missing[0]} of {given.release} "
            f"({len(missing):,} of {len(wanted):,} are missing; do both have the same row ids?)"
        )
    table = table.iloc[np.array([position[each] for each in wanted])]
    model = model_for(table)
    estimate = cross_validated(model, table, release)
    model.fit(table, release)
    save_model(model, given.out)
    print(f"linear model of {len(release.classes)} classes from {len(release):,} releases "
          f"(eps={release.eps_spent:g}), {len(table.columns)} columns")  # fmt: skip
    print(f"accuracy on new rows, from releases alone: {estimate.value:.1%} "
          f"(95 % interval {estimate.low:.1%} to {estimate.high:.1%})")  # fmt: skip
    print(f"wrote {given.out}")
    return 0
