"""What the files in scripts/ share: arguments spelled as for a run, `--help`, errors in one line.

Imports no torch.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path

from labeldp.support.files import writable_folder
from labeldp.support.validate import (
    LARGEST_EPS,
    SMALLEST_EPS,
    InputError,
    check_integer,
    check_number,
    did_you_mean,
)
from labeldp_bench.cli.errors import guarded
from labeldp_bench.experiments.compose import CHOICES
from labeldp_bench.experiments.grid import LOCAL, OF_THE_SWEEP, Axes, parse_axes
from labeldp_bench.support.checkout import CHECKOUT

# `python scripts/x.py` finds modules beside x.py and installed ones; papers/ is neither.
sys.path.append(str(CHECKOUT))

Main = Callable[[list[str]], int]
CELL_KEYS = tuple(key for key in (*CHOICES, "eps", "seed") if key not in OF_THE_SWEEP)
"""The keys without a dot that a cell has."""


def command(doc: str | None) -> Callable[[Main], Main]:
    """Returns a decorator for a script's `main(arguments)`, which returns the exit status.

    `--help` prints `doc`, the script's docstring. What a user can fix is one line on stderr, and
    exit status 2.
    """

    def decorate(main: Main) -> Main:
        def work(arguments: list[str]) -> int:
            file = Path(main.__globals__["__file__"]).resolve()
            if not file.is_relative_to(CHECKOUT):
                raise InputError(
                    f"{file} would read and write the files of {CHECKOUT}, where this environment "
                    "takes labeldp_bench from (`make install` in the script's own checkout)"
                )
            if {"-h", "--help"} & {*arguments}:
                print((doc or "").strip(), flush=True)
                return 0
            return main(arguments)

        return wraps(main)(partial(guarded, work))

    return decorate


def split_arguments(
    arguments: Sequence[str], own: Mapping[str, str]
) -> tuple[dict[str, str], Axes]:
    """Returns the values of a script's own keys, and the axes that all other arguments spell.

    Args:
        arguments: key=value each; for other keys also key=value,value.
        own: {key: default} of the script.

    >>> split_arguments(["out=a.csv", "eps=1,2"], {"out": "b.csv", "seed": "0"})
    ({'out': 'a.csv', 'seed': '0'}, {'eps': ['1', '2']})
    """
    values, others = dict(own), []
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InputError(f"cannot read {text!r} (write key=value; --help shows which)")
        if key in own:
            values[key] = value
        elif key in (*LOCAL, *OF_THE_SWEEP):
            raise InputError(f"{text} has no effect here; keys: {', '.join(own)}, those of a cell")
        elif key.isidentifier() and key not in CELL_KEYS:
            raise _unknown(key, (*own, *CELL_KEYS))
        else:
            others.append(text)
    return values, parse_axes(others)


def read_arguments(arguments: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    """Returns the values of a script's own keys; there are no others.

    >>> read_arguments(["budget=quick"], {"budget": "paper", "experiment": ""})
    {'budget': 'quick', 'experiment': ''}
    """
    if arguments and not own:
        raise InputError(f"this script takes no arguments, got {arguments[0]!r}")
    for text in arguments:
        key, equals, _ = text.partition("=")
        if key and equals and key not in own:
            raise _unknown(key, own)
    return split_arguments(arguments, own)[0]


def _unknown(key: str, known: Collection[str]) -> InputError:
    return InputError(f"unknown key {key}; keys: {', '.join(known)}{did_you_mean(key, known)}")


def default_data_dir() -> str:
    """Returns where data sets lie unless `data_dir=` says so, as for a run."""
    return os.environ.get("LABELDP_DATA") or "data"


def output_file(key: str, text: str) -> Path:
    """Returns the file that `key=text` names; checked first, as the work may take hours.

    Raises:
        InputError: its folder cannot be made or written to, or something else has the name.
    """
    path = Path(text).expanduser()
    complaint = f"{key} must be a file in a folder one can write to, got {text!r}"
    if path.exists() and not path.is_file():
        raise InputError(f"{complaint} (something else has that name)")
    return writable_folder(str(path.parent), complaint) / path.name


def output_folder(key: str, text: str) -> Path:
    """Returns the folder that `key=text` names; makes it, and checks first, as `output_file`."""
    return writable_folder(text, f"{key} must be a folder one can write to, got {text!r}")


def integer(key: str, text: str, *, low: int, high: int | None = None) -> int:
    """Returns the integer in [low, high] that `key=text` spells."""
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return check_integer(key, value, low=low, high=high)


def finite_eps(key: str, text: str) -> float:
    """Returns the budget that `key=text` spells: what has no noise has nothing to be tested."""
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return check_number(key, value, low=SMALLEST_EPS, high=LARGEST_EPS)


def listed(text: str) -> list[str]:
    """Returns the parts of 'a,b'; an empty text has none."""
    return [part for part in text.split(",") if part]


def some(key: str, text: str) -> list[str]:
    """Returns the parts of `key=a,b`, at least one: without any there is nothing to do."""
    if not (parts := listed(text)):
        raise InputError(f"{key} must be a value, or several with commas, got {text!r}")
    return parts


def print_head(names: Sequence[str]) -> None:
    """Prints the head of a Markdown table."""
    print_row(names)
    print("|---" * len(names) + "|")


def print_row(values: Iterable[object]) -> None:
    """Prints one row of a Markdown table, at once."""
    print(f"| {' | '.join(map(str, values))} |", flush=True)
