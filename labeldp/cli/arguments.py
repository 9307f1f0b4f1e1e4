"""What the commands share: a parser whose errors are one line, and values it reads."""

import argparse
import csv
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from labeldp.support.files import writing
from labeldp.support.validate import InputError

ROW_ID = "a column that names each row; default: rows are counted from 0"


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, as all commands here do."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            **settings, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )

    def error(self, message: str) -> NoReturn:
        """Raises an InputError with the parser's message."""
        advice = f"{self.prog} --help shows an example"
        if message.endswith("expected one argument"):  # which a -1,1 is not to argparse
            advice = f"a value that begins with - follows =, as in --bounds=-1,1; {advice}"
        raise InputError(f"{message} ({advice})")


def number(text: str) -> float:
    """Returns the number that a text spells, `inf` included."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def names(text: str) -> list[str]:
    """Returns the parts of 'a,b'; one with a comma is in quotes, as in a CSV file."""
    try:
        lines = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error:
        lines = []
    parts = [part.strip() for line in lines for part in line]
    if "" in parts or len(lines) != 1:
        raise argparse.ArgumentTypeError(
            f"must be names with commas between (a name with a comma in quotes), got {text!r}"
        )
    return parts


def numbers(text: str) -> list[float]:
    """Returns the numbers of '0.9,0.1'."""
    return [number(part) for part in text.split(",")]


def two_numbers(text: str) -> tuple[float, float]:
    """Returns the ends that 'low,high' spells."""
    ends = numbers(text)
    if len(ends) != 2 or not all(map(math.isfinite, ends)):
        raise argparse.ArgumentTypeError(f"must be low,high, both finite, got {text!r}")
    return ends[0], ends[1]


def add_table(parser: argparse.ArgumentParser, name: str, row_id: str) -> None:
    """Adds what the commands ask of a table: its file, its separator, the names of its rows.

    Args:
        parser: of the command.
        name: what the help calls the file.
        row_id: the help of --row-id.
    """
    parser.add_argument("file", type=Path, metavar=name, help="CSV, TSV or Parquet, with a header")
    parser.add_argument("--row-id", metavar="COLUMN", help=row_id)
    parser.add_argument(
        "--separator",
        type=lambda text: text.replace("\\t", "\t"),
        metavar="SIGN",
        help="what is between the cells; default: what the file uses",
    )


def check_new(
    path: Path,
    *suffixes: str,
    replace: bool = False,
    read: Sequence[Path] = (),
    advice: str = "choose another name, or delete it",
) -> Path:
    """Returns the path of a file to be written; asked first, as the work may take long.

    Args:
        path: of the file.
        suffixes: that it may have.
        replace: whether a file that is there is replaced.
        read: files that the command reads, which are never replaced.
        advice: what to do about a file that is there.

    Raises:
        InputError: another ending, no such folder, one that takes no file, or the file is there and
            must not be replaced.
    """
    if path.suffix not in suffixes:
        raise InputError(f"--out must end in {' or '.join(suffixes)}, got {path}")
    if not path.parent.is_dir():
        raise InputError(f"--out: there is no folder {path.parent}")
    for each in read:
        if path.exists() and each.exists() and path.samefile(each):
            raise InputError(f"--out: {path} is a file that is read here (choose another name)")
    if path.exists() and not (replace and path.is_file()):
        raise InputError(f"--out: {path} is there already ({advice})")
    with writing(path), tempfile.TemporaryFile(dir=path.parent):
        return path
