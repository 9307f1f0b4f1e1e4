"""The memory that a run needs at least, asked for before anything runs."""

import math
from pathlib import Path

from labeldp_bench.experiments.cell import Cell, Parts
from labeldp_bench.mechanisms.classes import LabelMechanism
from labeldp_bench.support.validate import InputError

BYTES = 8
"""Of a float64."""
SHARE = 0.8
"""Of the free memory that one run may take."""


def check_memory(cell: Cell, parts: Parts) -> None:
    """Refuses a run whose largest arrays do not fit into the memory that is free.

    A lower bound: the likelihood of N releases under K classes, N x K float64, and for a mechanism
    that releases one label its transition matrix, K x K.

    Raises:
        InputError: says how much is needed, how much is free, and how many classes would fit.
    """
    examples, classes = cell.setting("dataset.n_train"), cell.setting("dataset.num_classes")
    free = free_memory()
    if not (isinstance(examples, int) and isinstance(classes, int)) or math.isinf(free):
        return
    has_matrix = isinstance(parts.mechanism, LabelMechanism)
    needed = BYTES * classes * (examples + (classes if has_matrix else 0))
    if needed <= SHARE * free:
        return
    room = SHARE * free / BYTES
    # K examples + K^2 = room, or K examples = room.
    fits = (math.sqrt(examples**2 + 4 * room) - examples) / 2 if has_matrix else room / examples
    arrays = "N x K and K x K numbers" if has_matrix else "N x K numbers"
    raise InputError(
        f"dataset.num_classes={classes} with {examples:,} examples needs {_gigabytes(needed)} for "
        f"{arrays}, and {_gigabytes(free)} are free (at most dataset.num_classes={int(fits)})"
    )


def free_memory() -> float:
    """Returns the bytes that can still be taken; infinity where the system does not say."""
    info = Path("/proc/meminfo")
    if not info.is_file():
        return math.inf
    for line in info.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    return math.inf


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
