"""What is done, failed or missing of every experiment, and how long the rest takes here."""

import math
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp_bench.cell import Cell
from labeldp_bench.collect import read_committed
from labeldp_bench.config import CHECKOUT, experiment_names
from labeldp_bench.experiments import read_experiment
from labeldp_bench.identity import PAPER
from labeldp_bench.records import is_done

BENCHMARK = CHECKOUT / "results" / "benchmarks" / "training_cpu.csv"
TRAINING_IMAGES = {"mnist": 60_000, "fashion_mnist": 60_000, "kmnist": 60_000, "cifar10": 50_000,
                   "cifar100": 50_000}  # fmt: skip
FROM_ALIKE = "records of the same cell"
FROM_SPEED = "records' images/s"
FROM_BENCHMARK = "results/benchmarks"
FROM_TRIALS = "records' seconds per trial"


@dataclass
class Status:
    """How far one experiment is.

    Attributes:
        left: {config_hash: seconds on the device at hand} of its missing cells; NaN: unknown.
        sources: where the estimates come from.
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


class Estimator:
    """Estimates how long a cell takes on a device, from what was measured on it."""

    def __init__(
        self, device: str, records: dict[str, dict[str, Any]], benchmark: Path = BENCHMARK
    ) -> None:
        hardware = _hardware(device)
        here = [r for r in records.values() if _hardware(str(r["device"])) == hardware]
        alike: dict[str, list[float]] = {}
        trials: dict[tuple[str, ...], list[float]] = {}
        speeds: dict[tuple[str, ...], list[float]] = {}
        for record in here:
            alike.setdefault(_kind(record["identity"]), []).append(record["wall_seconds"])
            place = (str(record["dataset"]), str(record["model"]))
            if record.get("images_per_second"):
                speeds.setdefault(place, []).append(record["images_per_second"])
            elif record.get("trials"):
                each = record["wall_seconds"] / record["trials"]
                trials.setdefault(place, []).append(each)
        self.alike, self.trials, self.speeds = (_medians(x) for x in (alike, trials, speeds))
        self.benchmark: dict[str, float] = {}
        if benchmark.is_file():
            rows = pd.read_csv(benchmark)
            rows = rows[rows.device.map(_hardware) == hardware]
            self.benchmark = dict(zip(rows.model, rows.images_per_second, strict=True))

    def seconds(self, cell: Cell) -> tuple[float, str]:
        """Returns (seconds, where they come from); (NaN, "") where nothing is known."""
        kind, place = _kind(cell.identity), (cell.dataset_name, str(cell.identity["model"]))
        if kind in self.alike:
            return self.alike[kind], FROM_ALIKE
        if place in self.trials:
            return self.trials[place] * cell.setting("dataset.trials"), FROM_TRIALS
        images = images_trained_on(cell)
        if place in self.speeds:
            return images / self.speeds[place], FROM_SPEED
        speed = self.benchmark.get(place[1])
        return (images / speed, FROM_BENCHMARK) if speed else (math.nan, "")


def images_trained_on(cell: Cell) -> float:
    """Returns how many images pass through the network in training; NaN where unknown."""
    epochs = cell.setting("trainer.epochs")
    counts = cell.setting("dataset.train_counts")
    size = sum(counts) if counts else TRAINING_IMAGES.get(cell.dataset_name)
    if epochs is None or size is None:
        return math.nan
    size = min(size, cell.setting("dataset.limit_train") or size)
    shares = cell.setting("learner.fractions") or [1.0]
    # Each stage trains on the releases of all stages so far.
    return float(size * epochs * sum(sum(shares[: n + 1]) for n in range(len(shares))))


def status_of(name: str, out_dir: Path, estimator: Estimator, budget: str = PAPER) -> Status:
    """Returns how far an experiment is, by the committed records and those under `out_dir`."""
    status = Status(name)
    records = _committed()
    for cell in read_experiment(name).cells(budget):
        status.cells += 1
        folder = out_dir / cell.folder
        if cell.config_hash in records or is_done(folder):
            status.done += 1
            continue
        status.failed += (folder / "error.txt").is_file()
        seconds, source = estimator.seconds(cell)
        status.left[cell.config_hash] = seconds
        status.sources |= {source} - {""}
    return status


def every_status(
    out_dir: Path, device: str, budget: str = PAPER, names: list[str] | None = None
) -> list[Status]:
    """Returns the status of the named experiments, or of all."""
    estimator = Estimator(device, _committed())
    return [status_of(name, out_dir, estimator, budget) for name in names or experiment_names()]


def table(statuses: list[Status], budget: str = PAPER) -> str:
    """Returns the status as text, with the command that fills each experiment."""
    rows: list[tuple[Any, ...]] = []
    for status in statuses:
        if not status.cells:
            rows.append((status.name, "-", "-", "-", "-", "", "arithmetic, no runs"))
            continue
        command = f"python -m labeldp_bench experiment={status.name}"
        command += "" if budget == PAPER else f" budget={budget}"
        rows.append(
            (status.name, status.cells, status.done, status.failed, status.missing,
             hours(status.left), command if status.missing else "")
        )  # fmt: skip
    heads = ["experiment", "cells", "done", "failed", "missing", "hours", "fill with"]
    return pd.DataFrame(rows, columns=heads).to_markdown(index=False, disable_numparse=True)


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


@cache
def _committed() -> dict[str, dict[str, Any]]:
    return read_committed()


def _kind(identity: dict[str, Any]) -> str:
    """Returns what decides how long a cell takes: all but its budget of privacy and its seed."""
    free = ("seed", "mechanism.eps", "learner.first.eps", "budget")
    return str({key: value for key, value in sorted(identity.items()) if key not in free})


def _hardware(device: str) -> str:
    return re.sub(r", \d+ threads\)$", ")", device)


def _medians(found: dict[Any, list[float]]) -> dict[Any, float]:
    return {key: float(pd.Series(values).median()) for key, values in found.items()}
