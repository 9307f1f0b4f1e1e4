"""Estimate how good a model is, from releases alone.

Example:
  labeldp evaluate test.csv --release survey.release.parquet --model model.skops --row-id person

FEATURES must hold rows that the model was not fitted to: fit it to a part of the rows, and evaluate
it on the others. Needs no true label and spends no privacy. Prints every metric with its 95 %
interval, and writes a picture: calibration and ROC curves, with the interval at each point.
"""

import argparse
from pathlib import Path

from labeldp.cli.arguments import add_table, check_new
from labeldp.names import printable


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
    from labeldp.io.tables import TableFile
    from labeldp.manifest import unprotected
    from labeldp.matching import rows_held_out
    from labeldp.models import load_model
    from labeldp.release import load_release

    model, release = load_model(given.model), load_release(given.release)
    file = TableFile(given.file, given.separator)
    rows, scores = rows_held_out(file, release, given.release, given.row_id, model)
    release = rows.release
    print(f"{len(release):,} releases (eps={release.eps_spent:g} spent); {rows.note}")
    if (why := unprotected(release.manifest)) is not None:
        print(why)
    table = table_of(evaluated(release, scores, rows.persons))
    table["metric"] = table.metric.map(printable)
    print(table.to_string(index=False, justify="left"))
    draw(release, scores, given.out)
    print(f"wrote {given.out}")
    return 0
