"""Checks, before anything runs, that the largest arrays of a run fit into memory."""

import math
from pathlib import Path

from labeldp.mechanisms.base import LabelMechanism
from labeldp.support.validate import InputError
from labeldp_bench.data.images import count_examples, file_of
from labeldp_bench.experiments.cell import Cell, Parts

BYTES = 8
"""Of a float64."""
SHARE = 0.8
"""Of the free memory that one run may take."""


def check_memory(cell: Cell, parts: Parts, data_dir: Path) -> None:
    """Refuses a run whose largest arrays do not fit into the memory that is free.

    A lower bound: the likelihood of N releases under K classes, N x K float64, the confusion
    matrix, K x K int64, and for a mechanism that releases one label its transition matrix.

    Args:
        cell: the run.
        parts: its objects.
        data_dir: where the .npz files are; N is read from the head of one.

    Raises:
        InputError: says how much is needed, how much is free, and how many classes would fit.
    """
    examples, classes = _num_examples(cell, data_dir), cell.setting("dataset.num_classes")
    free = free_memory()
    if examples is None or not isinstance(classes, int) or math.isinf(free):
        return
    squares = 2 if isinstance(parts.mechanism, LabelMechanism) else 1
    needed = BYTES * classes * (examples + squares * classes)
    if needed <= SHARE * free:
        return
    room = SHARE * free / BYTES
    # The root of squares K^2 + examples K = room.
    fits = (math.sqrt(examples**2 + 4 * squares * room) - examples) / (2 * squares)
    ways_out = [f"at most dataset.num_classes={int(fits)}"] if fits >= 2 else []
    fewer = int(room / classes - squares * classes)
    if fewer >= 1:
        ways_out.append(f"at most {fewer:,} examples")
    how = f" ({', or '.join(ways_out)})" if ways_out else ""
    raise InputError(
        f"dataset.num_classes={classes} with {examples:,} examples needs {_gigabytes(needed)} for "
        f"N x K and K x K numbers, and {_gigabytes(free)} are free{how}"
    )


def _num_examples(cell: Cell, data_dir: Path) -> int | None:
    """Returns N, test points of drawn data with it, as they are scored for each class.

    None where it cannot be told before the data are read.
    """
    drawn, tested = cell.setting("dataset.n_train"), cell.setting("dataset.n_test")
    if isinstance(drawn, int):
        return drawn + (tested if isinstance(tested, int) else 0)
    source = cell.setting("dataset.source") or cell.setting("dataset.name")
    limit = cell.setting("dataset.limit_train")
    held = count_examples(file_of(data_dir, str(source))) if source else None
    known = [number for number in (held, limit) if isinstance(number, int)]
    return min(known, default=None)


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
