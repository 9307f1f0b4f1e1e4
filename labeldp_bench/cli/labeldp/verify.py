"""Audit somebody else's randomiser: whether it has the eps that it claims.

Example:
  labeldp verify mine.py:randomise --classes 10 --eps 1

OBJECT is a function labels -> outputs (NumPy int64 labels (n,); n labels, or rows of bits or reals,
in the same order), or a table of probabilities (classes, outputs), row = true label. The file is
run, so trust it first. Exit status 1: the claim does not hold.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

from labeldp_bench.cli.labeldp.arguments import number
from labeldp_bench.support.validate import InputError, did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("object", metavar="FILE.py:OBJECT")
    parser.add_argument("--classes", type=int, required=True, metavar="K", help="at least 2")
    parser.add_argument("--eps", type=number, required=True, help="that it claims")
    parser.add_argument("--calls", type=int, default=1,
                        help="how often the same labels are asked for, such as epochs")  # fmt: skip
    parser.add_argument("--draws", type=int, default=1_000_000, help="labels given in all")


def run(given: argparse.Namespace) -> int:
    """Prints claimed, found and verdict."""
    from labeldp_bench.privacy.audits.verify import verify

    found = verify(
        load(given.object), given.classes, given.eps, draws=given.draws, calls=given.calls
    )
    print(f"randomiser {given.object}")
    print("\n".join(found.lines()))
    return 0 if found.holds else 1


def load(text: str) -> Any:
    """Returns what FILE.py:OBJECT names; runs the file.

    Raises:
        InputError: no such file or object, or the file fails.
    """
    file, colon, name = text.rpartition(":")
    path = Path(file).expanduser()
    if not colon or not name or path.suffix != ".py":
        raise InputError(f"a randomiser must be given as FILE.py:OBJECT, got {text!r}")
    if not path.is_file():
        raise InputError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location("labeldp_verified", path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # for files beside it, as Python itself does
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # somebody else's code: whatever it raises is worth one line
        first = " ".join(str(error).split())
        raise InputError(f"{file} fails when it is run: {type(error).__name__}: {first}") from None
    finally:
        sys.path.pop(0)
    if name not in vars(module):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise InputError(f"{file} has no {name}{did_you_mean(name, public)}")
    return vars(module)[name]
