"""Check whether somebody else's randomiser keeps the eps that it claims.

Example:
  labeldp verify mine.py:randomise --classes 10 --eps 1

OBJECT is a function or a table. The function takes n labels 0 to K-1 (NumPy, int64) and returns n
labels, or n rows of bits or reals, in the same order; or it takes one label and returns one output.
A second argument named rng or generator gets a NumPy Generator. The table has a row of output
probabilities for each true label. The file is run, here and in two further processes, so read it
first. A table can hold; of a function, draws can only find no fault, and the page says what they
would not have shown. Exit status 1: the claim does not hold.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        help="about how many labels are looked at; default a million. It is given a million "
        "others before the last ones, or as many as 10 s allow",
    )
    parser.add_argument("--memoised", action="store_true",
                        help="documented: the same labels get the same outputs")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object, for a program")


def run(given: argparse.Namespace) -> int:
    """Prints claimed, found and verdict."""
    from labeldp.audit.verify import check_request, verify
    from labeldp.mechanisms import ClassMechanism

    check_request(given.classes, given.eps, given.draws, given.calls, "--")
    source = load(given.object)
    is_function = callable(source) and not isinstance(source, ClassMechanism)
    found = verify(
        source,
        given.classes,
        given.eps,
        draws=given.draws,
        calls=given.calls,
        delta=given.delta,
        memoised=given.memoised,
        elsewhere=partial(elsewhere, given.object) if is_function else None,
    )
    if given.json:
        print(json.dumps({"randomiser": given.object} | found.as_json()))
    else:
        print(f"randomiser {given.object}")
        print("\n".join(found.lines()))
    return 0 if found.holds else 1


IN_ANOTHER_PROCESS = """
import os, runpy, sys
import numpy
file, name, labels, outputs, is_of_one = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
function, labels = runpy.run_path(file)[name], numpy.load(labels)
answer = [function(int(label)) for label in labels] if is_of_one == "True" else function(labels)
numpy.save(outputs, numpy.asarray(answer))
"""


def elsewhere(text: str, labels: NDArray[np.int64], is_of_one: bool) -> NDArray:
    """Returns the outputs of what FILE.py:OBJECT names, in a new process.

    Raises:
        InputError: the file fails there.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, returned = Path(folder, "labels.npy"), Path(folder, "outputs.npy")
        np.save(given, labels)
        file, _, name = text.rpartition(":")
        words = [str(Path(file).expanduser()), name, str(given), str(returned), str(is_of_one)]
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS, *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if not returned.is_file():
            last = done.stderr.strip().splitlines() or ["no output"]
            raise InputError(f"{text} fails in another process: {last[-1]}")
        return np.load(returned)


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
