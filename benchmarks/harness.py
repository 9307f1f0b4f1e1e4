"""One form for every benchmark: options, a Markdown table, one CSV per device."""

import csv
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from labeldp.support.files import replacing
from labeldp_bench.cli.script import (
    command,
    output_folder,
    print_head,
    print_row,
    read_arguments,
)
from labeldp_bench.records.record import git_commit
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.device import describe_device

BENCHMARKS = CHECKOUT / "results" / "benchmarks"
CPU = torch.device("cpu")
Row = Mapping[str, Any]
Measure = Callable[[dict[str, str]], Iterable[Row]]


def benchmark(
    name: str, doc: str | None, shown: Sequence[str] = (), **own: str
) -> Callable[[Measure], Callable[[list[str]], int]]:
    """Returns a decorator that makes `main(arguments)` of a function that yields rows, on the CPU.

    Args:
        name: of the CSV, see `report`.
        doc: printed by `--help`.
        shown: columns of the printed table; none: all.
        own: {key: default} of its options, which the function gets as texts. `out=FOLDER` is added.
    """

    def decorate(measure: Measure) -> Callable[[list[str]], int]:
        @command(doc)
        def main(arguments: list[str]) -> int:
            options = read_arguments(arguments, own | {"out": str(BENCHMARKS)})
            folder = output_folder("out", options["out"])
            report(name, measure(options), folder, shown)
            return 0

        return main

    return decorate


def report(
    name: str,
    rows: Iterable[Row],
    folder: Path,
    shown: Sequence[str] = (),
    device: torch.device = CPU,
) -> None:
    """Prints each row as it comes, then writes all to `<name>_<device>.csv`, and says where.

    Args:
        name: what was measured, such as `training`.
        rows: at least one; all have the columns of the first. Threads, device, versions and the
            commit are added to each.
        folder: of the file.
        shown: columns of the printed table; none: all.
        device: where it was measured.
    """
    kept: list[Row] = []
    for row in rows:
        columns = shown or list(row)
        if not kept:
            print_head([key.replace("_", " ") for key in columns])
        kept.append(row)
        print_row([_cell(row[key]) for key in columns])
    provenance = {
        "threads": torch.get_num_threads(),
        "device": describe_device(device),
        "torch_version": torch.__version__,
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "git_commit": git_commit(),
    }
    slug = re.sub(r"\W+", "_", str(provenance["device"]).split(" (")[0]).strip("_").lower()
    path = folder / f"{name}_{slug}.csv"
    with replacing(path) as partial, partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*kept[0], *provenance], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, **provenance} for row in kept)
    print(f"\n{provenance['device']}, torch {torch.__version__}: {path}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def seconds_of(
    work: Callable[[], object], times: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Returns the least time that `work` took."""
    best = float("inf")
    for _ in range(times):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def rate(work: Callable[[], object], size: int) -> float:
    """Returns how many of the `size` things that `work` does it does in a CPU second, at best."""
    return size / seconds_of(work, times=5, clock=time.process_time)


def ratio(ours: float, baseline: float | None) -> float | None:
    """Returns how many times the baseline's rate ours is; None without a baseline."""
    return round(ours / baseline, 2) if baseline else None
