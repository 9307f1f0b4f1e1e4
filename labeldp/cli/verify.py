"""Check whether somebody else's randomiser keeps the eps that it claims.

Example:
  labeldp verify mine.py:randomise --classes 10 --eps 1

OBJECT is a function or a table. The function takes n labels 0 to K-1 (NumPy, int64) and returns n
labels, or n rows of bits or reals, in the same order. The table has a row of output probabilities
for each true label. The file is run, so read it first. Exit status 1: the claim does not hold.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any

from labeldp.cli.arguments import number
from labeldp.support.validate import InputError, did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("object", metavar="FILE.py:OBJECT",
                        help="a function, or a table of probabilities")  # fmt: skip
    parser.add_argument(
        "--classes", type=int, required=True, metavar="K", help="how many classes, 2 or more"
    )
    parser.add_argument("--eps", type=number, required=True, help="the eps that it claims")
    parser.add_argument("--calls", type=int, default=1, metavar="N",
                        help="how often it is given the same labels; default 1")  # fmt: skip
    parser.add_argument(
        "--delta", type=number, default=0.0, help="by how much a probability may exceed; default 0"
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=1_000_000,
        metavar="N",
        help="how many labels it is given in all; default a million",
    )


def run(given: argparse.Namespace) -> int:
    """Prints claimed, found and verdict."""
    from labeldp.audit.verify import check_request, verify

    check_request(given.classes, given.eps, given.draws, given.calls, "--")
    found = verify(
        load(given.object),
        given.classes,
        given.eps,
        draws=given.draws,
        calls=given.calls,
        delta=given.delta,
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
    except (Exception, SystemExit) as error:  # somebody else's code: all that it raises is one line
        first = " ".join(str(error).split())
        raise InputError(f"{file} fails when it is run: {type(error).__name__}: {first}") from None
    finally:
        sys.path.pop(0)
    if name not in vars(module):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise InputError(f"{file} has no {name}{did_you_mean(name, public)}")
    return vars(module)[name]
