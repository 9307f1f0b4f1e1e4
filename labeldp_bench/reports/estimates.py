"""How long a cell takes on a device, from what was measured on it."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import is_done, read_record
from labeldp_bench.runs.environment import Environment
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.device import describe_device
from labeldp_bench.support.official_data import OFFICIAL
from labeldp_bench.support.progress import duration, say

BENCHMARK = CHECKOUT / "results" / "benchmarks" / "training_cpu.csv"
TRAINING_IMAGES = {name: official.n_train for name, official in OFFICIAL.items()}
FROM_ALIKE = "records of the same cell"
FROM_SPEED = "records' images/s"
FROM_BENCHMARK = "results/benchmarks"
FROM_TRIALS = "records' seconds per trial"


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


def finished_in_time(cells: Sequence[Cell], environment: Environment, seconds: float) -> list[Cell]:
    """Returns those first cells of a job that are expected to finish within `seconds`.

    Rates come from records on the same hardware: those under `out_dir`, and the committed ones. A
    cell of which nothing is known is started: it measures the rate. A cell that goes on from a
    checkpoint needs only its epochs left.
    """
    here = {}
    for path in environment.out_dir.rglob("record.json"):
        record = read_record(path.parent)
        here[record["config_hash"]] = record
    estimator = Estimator(describe_device(environment.device), read_committed() | here)
    kept: list[Cell] = []
    for cell in cells:
        folder = environment.out_dir / cell.folder
        if is_done(folder):
            continue
        needed, _ = estimator.seconds(cell)
        needed *= _share_left(cell, folder)
        if seconds <= 0 or needed > seconds:
            say(f"not started: {cell.title}{_why(needed, seconds)}")
            continue
        kept.append(cell)
        seconds -= 0 if math.isnan(needed) else needed
    return kept


def _why(needed: float, seconds: float) -> str:
    if math.isnan(needed) or seconds <= 0:
        return " (the time is up)"
    return f" (about {duration(needed)}, and {duration(seconds)} are left)"


def _share_left(cell: Cell, folder: Path) -> float:
    """Returns the share of a cell's epochs that it has not done yet."""
    history, epochs = folder / "history.csv", cell.setting("trainer.epochs")
    if not (folder / "checkpoint.pt").is_file() or not history.is_file() or not epochs:
        return 1.0
    stages = len(cell.setting("learner.fractions") or [1.0])
    done = len(history.read_text().splitlines()) - 1
    return max(0.0, 1 - done / (epochs * stages))


def _kind(identity: dict[str, Any]) -> str:
    """Returns what decides how long a cell takes: all but its budget of privacy and its seed."""
    free = ("seed", "mechanism.eps", "learner.first.eps", "budget")
    return str({key: value for key, value in sorted(identity.items()) if key not in free})


def _hardware(device: str) -> str:
    return re.sub(r", \d+ threads\)$", ")", device)


def _medians(found: dict[Any, list[float]]) -> dict[Any, float]:
    return {key: float(pd.Series(values).median()) for key, values in found.items()}
