"""Say how well features alone name a label: what eps does not hide.

Example:
  labeldp leak features.csv --release survey.release.parquet --row-id person

Who has the features of a person can guess that person's label without any release of it. Prints
how often two models, linear and boosted trees, are right on rows that they were not fitted to,
beside always naming the most frequent class. Only releases are read, and no privacy is spent.
"""

import argparse
from pathlib import Path

from labeldp.cli.arguments import add_table, printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_table(parser, "FEATURES", "the column that `release --row-id` named")
    parser.add_argument("--release", type=Path, required=True, metavar="RELEASE.parquet",
                        help="the file that `labeldp release` wrote")  # fmt: skip
    parser.add_argument("--drop", action="append", default=[], metavar="COLUMN",
                        help="a column that is no feature; may be given several times")  # fmt: skip
    parser.add_argument("--keep", action="append", default=[], metavar="COLUMN",
                        help="a feature though it looks like row numbers")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints what features tell."""
    import numpy as np

    from labeldp import metrics
    from labeldp.cli.fit import SAID, check_names, features_of, matched_rows, persons_of
    from labeldp.cross_validation import cross_val_predict
    from labeldp.estimates import check_classes_released, class_shares
    from labeldp.io.tables import TableFile
    from labeldp.models import model_for
    from labeldp.release import load_release

    release = load_release(given.release)
    check_classes_released(release)
    check_names(release, given)
    file = TableFile(given.file, given.separator)
    table = features_of(file, release, given)
    places, release, matched = matched_rows(file, len(table), release, given)
    table, persons = table.iloc[places].set_axis(release.row_ids), persons_of(file, places, release)
    print(f"{len(release):,} releases, {len(table.columns)} columns; {matched}")
    shares = class_shares(release, persons=persons)
    often = max(shares, key=lambda name: shares[name].value)
    print(f"always saying {printable(often)} is right for {shares[often]} of the rows")
    always = np.eye(len(shares))[[release.classes.index(often)] * len(release)]
    gains = []
    for name, said in SAID.items():
        scores = cross_val_predict(model_for(table, name), table, release, persons=persons)
        accuracy = metrics.accuracy(release, scores, persons=persons)
        auc = metrics.roc_auc(release, scores, persons=persons)
        print(f"{said}: right for {accuracy} of the rows; AUC {auc}")
        gains.append(
            metrics.difference(
                metrics.accuracy, release, scores, always, persons=persons,
                confidence=1 - 0.05 / len(SAID),
            )
        )  # fmt: skip
    if max(gain.low for gain in gains) > 0:
        print("features tell labels: whoever has them is right more often, whatever eps is")
    else:
        print("that features tell labels cannot be seen in these releases (which does not show "
              "that they do not)")  # fmt: skip
    return 0
