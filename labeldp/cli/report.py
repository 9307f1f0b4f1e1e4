r"""Write one page on a release, to print or to send: what it is, the shares, and a model on it.

Example:
  labeldp report survey.release.parquet --out report.html
  labeldp report survey.release.parquet --model model.skops --features test.csv --row-id person \
      --out report.html

The page needs no other file and no network. All of it is computed from releases.
"""

import argparse
import html
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.cli.arguments import check_new
from labeldp.names import class_text
from labeldp.support.validate import InputError

if TYPE_CHECKING:
    from labeldp.manifest import Manifest
    from labeldp.release import Release

FIRST_METRICS = ("accuracy", "roc auc", "calibration error")
"""How the names of the metrics begin that a reader needs first."""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{font: 16px/1.5 sans-serif; max-width: 48em; margin: 2em auto; padding: 0 1em;
background: white; color: black}} table {{border-collapse: collapse}}
td, th {{padding: .2em 1em .2em 0; text-align: left; border-bottom: 1px solid #ccc}}
svg {{max-width: 100%; height: auto}}</style>
<h1>{title}</h1>
{body}
</html>
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("release", type=Path, metavar="RELEASE.parquet",
                        help="the file that `labeldp release` wrote")  # fmt: skip
    parser.add_argument("--model", type=Path, metavar="MODEL.skops",
                        help="the file that `labeldp fit` wrote, from other rows")  # fmt: skip
    parser.add_argument("--features", type=Path, metavar="FEATURES",
                        help="rows for the model that it was not fitted to")  # fmt: skip
    parser.add_argument("--row-id", metavar="COLUMN", help="as in `labeldp fit`")
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="PAGE.html",
                        help="the file to write; default report.html")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Writes the page."""
    files = [path for path in (given.release, given.model, given.features) if path is not None]
    check_new(given.out, ".html", replace=True, read=files)
    if (given.model is None) != (given.features is None):
        raise InputError("--model and --features go together")
    from labeldp.estimates import check_classes_released, class_shares
    from labeldp.evaluation import draw, evaluated, table_of
    from labeldp.io.tables import TableFile
    from labeldp.matching import rows_held_out
    from labeldp.models import load_model
    from labeldp.release import load_release
    from labeldp.support.files import replacing

    release = load_release(given.release)
    check_classes_released(release)
    shares = {
        f"share of {class_text(name)}": share for name, share in class_shares(release).items()
    }
    lines = [*_origin(release), *html.escape(release.summary()).splitlines()]
    body = [f"<p>{line}</p>" for line in [*lines, *_promise(release.manifest)]]
    body += ["<h2>Shares of the classes</h2>", table_of(shares).to_html(index=False, border=0)]
    if given.model is not None:
        rows, scores = rows_held_out(
            TableFile(given.features), release, given.release, given.row_id,
            load_model(given.model),
        )  # fmt: skip
        metrics = evaluated(rows.release, scores, rows.persons)
        first = {name: each for name, each in metrics.items() if name.startswith(FIRST_METRICS)}
        others = {name: each for name, each in metrics.items() if name not in first}
        with tempfile.TemporaryDirectory() as folder:
            draw(rows.release, scores, Path(folder, "picture.svg"))
            picture = Path(folder, "picture.svg").read_text(encoding="utf-8")
        body += [
            "<h2>The model, on rows that it was not fitted to</h2>",
            f"<p>{len(rows.release):,} releases; {html.escape(rows.note)}</p>",
            table_of(first).to_html(index=False, border=0),
            picture[picture.index("<svg") :],
            "<h2>Further metrics of the model</h2>",
            table_of(others).to_html(index=False, border=0),
        ]
    title = html.escape(f"Release {given.release.name}")
    with replacing(given.out) as partial:
        partial.write_text(PAGE.format(title=title, body="\n".join(body)), encoding="utf-8")
    print(f"wrote {given.out}")
    return 0


def _origin(release: "Release") -> list[str]:
    """Returns what was released and when, and which rows are not in it."""
    made = release.manifest
    what = [f"label: {html.escape(made.source)}"] if made.source else []
    when = [f"released on {html.escape(made.date)}"] if made.date else []
    lines = ["; ".join([*what, *when])] if what or when else []
    left_out = -1 if made.num_rows is None else made.num_rows - len(release)
    if left_out >= 0:
        lines.append(f"{left_out:,} of the {made.num_rows:,} rows of the file are left out")
    return lines


def _promise(manifest: "Manifest") -> list[str]:
    """Returns what eps means, for whom, and what it does not protect."""
    from labeldp.manifest import unprotected

    if unprotected(manifest) is not None:
        return []  # the summary says why
    whose = (
        f"the labels of one {html.escape(manifest.unit.column)}" if manifest.unit else "one label"
    )
    lines = [
        f"eps={manifest.eps:g}: another value of {whose} changes the chance of any result of "
        f"this release by a factor of at most {math.exp(manifest.eps):.3g}.",
        "The other columns are not protected, nor is what they tell about the label.",
    ]
    if manifest.unit is None:
        lines.append("Persons were not counted: one with several rows spends eps for each of them.")
    return lines
