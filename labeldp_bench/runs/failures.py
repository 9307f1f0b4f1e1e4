"""Reports a failed cell: `error.txt` and one line."""

import contextlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from labeldp.support.files import CannotWrite, write_text
from labeldp.support.progress import say
from labeldp.support.validate import Diverged, InputError
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.support.device import out_of_memory

TRAINED = (
    "free the device of other work, take a smaller model, or device=cpu; the batch size is part of "
    "the recipe"
)
NOT_TRAINED = "free the machine of other work, or take fewer classes or examples"
"""What to do where memory ran out, with and without a network."""
ReportFailure = Callable[[Cell, Path, Exception], None]
"""Called with a cell that failed, its folder and the reason."""


def write_failure(cell: Cell, folder: Path, error: Exception) -> None:
    """Writes `error.txt`, and one line on stderr, about a cell that failed."""
    path = folder / "error.txt"
    with contextlib.suppress(CannotWrite):  # a full disk, which may be the failure itself
        write_text(path, "".join(traceback.format_exception(error)))
    text = " ".join(str(error).split())
    if out_of_memory(error):
        text = f"out of memory ({TRAINED if cell.has('trainer') else NOT_TRAINED})"
    elif not isinstance(error, InputError):
        text = f"{type(error).__name__}: {text} (see {path})"
    say(f"error: {cell.title}: {text}", sys.stderr)


def raise_or_write_failure(cell: Cell, folder: Path, error: Exception) -> None:
    """Raises what is wrong with the input of a single run; else as `write_failure`."""
    if isinstance(error, InputError) and not isinstance(error, Diverged):
        raise error
    write_failure(cell, folder, error)
