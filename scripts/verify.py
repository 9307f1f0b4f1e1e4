"""Verifies somebody else's randomiser of labels: eps claimed, found, and the verdict on one page.

    python scripts/verify.py docs/examples/randomisers/honest.py:randomise classes=10 eps=1
    python scripts/verify.py mine.py:draw_labels classes=10 eps=1 calls=20

OBJECT is a function labels -> outputs (NumPy int64 labels (n,); n labels, rows of bits or reals, in
the same order), or a table of probabilities (classes, outputs), row = true label. Keys: `classes`,
`eps`, `calls` (how often the same labels are asked for, such as epochs; the claim covers all of
them), `delta`, `draws`, `seed`. The file is run, so trust it first. Exit status 0: nothing
contradicts the claim; 1: it does not hold; 2: bad input. See docs/audits.md.
"""

import importlib.util
import sys
from pathlib import Path

from labeldp_bench.cli.script import command, integer, read_arguments
from labeldp_bench.privacy.audits.verify import Randomiser, verify
from labeldp_bench.support.validate import InputError, did_you_mean


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the page and returns the exit status."""
    if not arguments or "=" in arguments[0]:
        got = f", got {arguments[0]!r}" if arguments else ""
        raise InputError(f"give FILE.py:OBJECT first (--help shows how){got}")
    randomiser = load(arguments[0])
    own = {"classes": "", "eps": "", "calls": "1", "delta": "0", "draws": "1000000", "seed": "0"}
    own = read_arguments(arguments[1:], own)
    classes = integer("classes", own["classes"], low=2)
    found = verify(
        randomiser,
        classes,
        _number("eps", own["eps"]),
        draws=integer("draws", own["draws"], low=1),
        calls=integer("calls", own["calls"], low=1),
        delta=_number("delta", own["delta"]),
        seed=integer("seed", own["seed"], low=0),
    )
    print(f"randomiser {arguments[0]}")
    print("\n".join(found.lines()))
    return 0 if found.holds else 1


def load(text: str) -> Randomiser:
    """Returns the object that FILE.py:OBJECT names; runs the file.

    Raises:
        InputError: no such file or object, or the file fails.
    """
    file, colon, name = text.rpartition(":")
    path = Path(file).expanduser()
    if not colon or not name or path.suffix != ".py":
        raise InputError(f"a randomiser must be given as FILE.py:OBJECT, got {text!r}")
    if not path.is_file():
        raise InputError(f"no file {file} (the part before the colon of {text!r})")
    spec = importlib.util.spec_from_file_location("labeldp_verified", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{file} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))  # for files beside it, as Python itself does
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else ""
        raise InputError(f"{file} fails when it is run: {type(error).__name__}: {first}") from error
    finally:
        sys.path.pop(0)
    public = [key for key in vars(module) if not key.startswith("_")]
    if name not in vars(module):
        raise InputError(f"{file} has no {name}{did_you_mean(name, public)}")
    return vars(module)[name]


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(
            f"{key} must be given as a number, such as {key}=1, got {text!r}"
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
