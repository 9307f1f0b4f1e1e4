"""Estimate how good a model is, from releases alone.

Example:
  labeldp evaluate test.csv --release survey.release.parquet --model model.skops --row-id person
  labeldp evaluate predictions.csv --release survey.release.parquet --row-id person
  labeldp evaluate mine.csv theirs.csv --release survey.release.parquet --row-id person

FILE holds features for a model of `labeldp fit`, or the predictions of any other tool: a column
`predicted` with the class, or a column p_NAME with the probability of each class NAME, or both. Its
rows must be ones that the model was not fitted to: fit it to a part of the rows, and evaluate it on
the others. Needs no true label and spends no privacy. Prints every metric with its 95 % interval,
and writes a picture: calibration and ROC curves, with the interval at each point. Of two files it
prints the difference, and writes no picture.
"""

import argparse
from pathlib import Path

from labeldp.cli.arguments import add_table, check_new
from labeldp.names import printable
from labeldp.support.validate import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser, "FILE", "the column that `release --row-id` named")
    parser.add_argument("other", type=Path, nargs="?", metavar="FILE",
                        help="other predictions of the same rows")  # fmt: skip
    parser.add_argument("--release", type=Path, required=True, metavar="RELEASE.parquet",
                        help="the file that `labeldp release` wrote")  # fmt: skip
    parser.add_argument("--model", type=Path, metavar="MODEL.skops",
                        help="of `labeldp fit`; FILE then holds features")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("evaluation.png"), metavar="PICTURE",
                        help="ends in .png, .pdf or .svg; default evaluation.png")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints the table and writes the picture."""
    files = [path for path in (given.file, given.other) if path is not None]
    if given.model is not None and len(files) > 1:
        raise InputError("--model goes with one file (write predictions by `labeldp predict`)")
    read = [*files, given.release] + [given.model] * (given.model is not None)
    check_new(given.out, ".png", ".pdf", ".svg", replace=True, read=read)
    from labeldp.evaluation import compared, draw, evaluated, table_of
    from labeldp.io.tables import TableFile
    from labeldp.manifest import unprotected
    from labeldp.matching import rows_held_out, rows_predicted
    from labeldp.models import load_model
    from labeldp.release import load_release

    release = load_release(given.release)
    tables, by = [TableFile(path, given.separator) for path in files], given.row_id
    if given.model is None:
        judged = [rows_predicted(table, release, given.release, by) for table in tables]
    else:
        model = load_model(given.model)
        judged = [rows_held_out(tables[0], release, given.release, by, model)]
    (rows, scores), release = judged[0], judged[0][0].release
    print(f"{len(release):,} releases (eps={release.eps_spent:g} spent); {rows.note}")
    if (why := unprotected(release.manifest)) is not None:
        print(why)
    if given.other is None:
        table = table_of(evaluated(release, scores, rows.persons))
    else:
        names = str(given.file), str(given.other)
        table = compared(scores, judged[1][1], names, rows.persons)
    table["metric"] = table.metric.map(printable)
    print(table.to_string(index=False, justify="left"))
    if given.other is None and scores.scores is not None:
        draw(release, scores, given.out)
        print(f"wrote {given.out}")
    elif given.other is None:
        print("no AUC, log loss, calibration or picture: these need columns p_NAME")
    return 0
