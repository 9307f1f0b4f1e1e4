r"""Compare successive releases: did the shares of the classes change, or a model's accuracy?

Example:
  labeldp monitor spring.release.parquet autumn.release.parquet
  labeldp monitor spring.release.parquet autumn.release.parquet --model model.skops \
      --features spring.csv --features autumn.csv --row-id person

Each release must be of other people than the others. Prints the share of each class in each
release, with a model also its accuracy, each with a 95 % interval, and the p-value of a test that
nothing has changed. Draws a picture of them.
"""

import argparse
from pathlib import Path

from labeldp.cli.arguments import check_new, printable
from labeldp.support.validate import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("releases", type=Path, nargs="+", metavar="RELEASE.parquet",
                        help="two or more, the earliest first")  # fmt: skip
    parser.add_argument("--model", type=Path, metavar="MODEL.skops",
                        help="the file that `labeldp fit` wrote, from other rows")  # fmt: skip
    parser.add_argument("--features", type=Path, action="append", default=[], metavar="FEATURES",
                        help="once for each release, in their order")  # fmt: skip
    parser.add_argument("--row-id", metavar="COLUMN", help="as in `labeldp fit`")
    parser.add_argument("--out", type=Path, default=Path("monitor.png"), metavar="PICTURE",
                        help="ends in .png, .pdf or .svg; default monitor.png")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints the shares and the tests, and writes the picture."""
    read = (*given.releases, *given.features)
    check_new(given.out, ".png", ".pdf", ".svg", replace=True, read=read)
    if len(given.releases) < 2:
        raise InputError("a change takes at least two releases")
    asked = 0 if given.model is None else len(given.releases)
    if len(given.features) != asked:
        raise InputError(f"--model and --features go together, one --features for each release: "
                         f"{asked} of them, got {len(given.features)}")  # fmt: skip
    from labeldp.cli.evaluate import held_out
    from labeldp.monitoring import changes, draw_changes
    from labeldp.release import load_release

    names = list(map(str, given.releases))
    series = changes([load_release(path) for path in given.releases])
    if asked:
        each = [
            held_out(argparse.Namespace(**vars(given) | {
                "file": file, "separator": None, "release": release}))
            for file, release in zip(given.features, given.releases, strict=True)
        ]  # fmt: skip
        series += changes([one.release for one in each], [one.scores for one in each])
    for line in series:
        print(f"{printable(line.name)} (no change: p={line.p_value:.2g})")
        for name, found in zip(names, line.estimates, strict=True):
            print(f"  {printable(name)}: {found}")
    draw_changes(series, names, given.out)
    print(f"wrote {given.out}")
    return 0
