"""What is done, failed or missing of every experiment, and how long the rest takes here."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import torch

from labeldp.support.progress import progress_bar
from labeldp_bench.experiments.compose import experiment_names
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import Records, is_done
from labeldp_bench.reports.durations import Durations
from labeldp_bench.reports.rendering import markdown_table
from labeldp_bench.support.device import describe_device


@dataclass
class Status:
    """How far one experiment is.

    Attributes:
        left: {config_hash: seconds on the device at hand} of its missing cells; NaN: unknown.
        sources: where these seconds come from.
    """

    name: str
    cells: int = 0
    done: int = 0
    failed: int = 0
    left: dict[str, float] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)

    @property
    def missing(self) -> int:
        """Cells without a record; those that failed are among them."""
        return len(self.left)


def status_of(
    name: str, out_dir: Path, records: Records, durations: Durations, budget: str = PAPER
) -> Status:
    """Returns how far an experiment is, by `records` and those under `out_dir`."""
    status = Status(name)
    for cell in read_experiment(name).cells(budget):
        status.cells += 1
        folder = out_dir / cell.folder
        if cell.config_hash in records or is_done(folder):
            status.done += 1
            continue
        status.failed += (folder / "error.txt").is_file()
        seconds, source = durations.seconds(cell)
        status.left[cell.config_hash] = seconds
        status.sources |= {source} - {""}
    return status


def every_status(
    out_dir: Path, device: torch.device, budget: str, names: list[str]
) -> list[Status]:
    """Returns the status of the named experiments, or of all where none is named."""
    records = read_committed()
    durations = Durations(describe_device(device), records)
    names = names or experiment_names()
    bar = progress_bar(names, len(names), "experiments")
    return [status_of(name, out_dir, records, durations, budget) for name in bar]


def table(statuses: list[Status], budget: str = PAPER) -> str:
    """Returns the status as text, with the command that fills each experiment."""
    rows = []
    for each in statuses:
        numbers: tuple[object, ...] = ("-",) * 4
        experiment = read_experiment(each.name)
        how = "arithmetic, no runs" if experiment.blocks is None else "no cells at this budget"
        if each.cells:
            numbers = (each.cells, each.done, each.failed, each.missing)
            how = experiment.command_at(budget) if each.missing else ""
        rows.append((each.name, *numbers, hours(each.left), how))
    heads = ["experiment", "cells", "done", "failed", "missing", "hours", "fill with"]
    return markdown_table(rows, heads)


def hours(left: dict[str, float]) -> str:
    """Returns the hours of missing cells as text, and of how many nothing is known.

    >>> hours({"a": 1800.0, "b": math.nan}), hours({"b": math.nan}), hours({})
    ('0.5 + 1 unknown', 'unknown', '')
    """
    known = [seconds for seconds in left.values() if not math.isnan(seconds)]
    if not known:
        return "unknown" if left else ""
    more = f" + {len(left) - len(known)} unknown" if len(known) < len(left) else ""
    return f"{sum(known) / 3600:.1f}{more}"
