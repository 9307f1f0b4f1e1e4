"""How long a cell takes on a device, from what was measured on it."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from labeldp.support.progress import duration, say
from labeldp.support.validate import InputError
from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import CHECKPOINT, Record, Records, is_done, read_record
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.hardware import Hardware
from labeldp_bench.training.resolution import mean_area

if TYPE_CHECKING:  # they import torch, which a forecast need not wait for
    import torch

    from labeldp_bench.runs.environment import Environment

BENCHMARK = CHECKOUT / "results" / "benchmarks" / "training_cpu.csv"
TRAINING_IMAGES = {name: official.n_train for name, official in OFFICIAL.items()}
FROM_ALIKE = "records of the same cell"
FROM_SPEED = "records' images/s"
FROM_BENCHMARK = "results/benchmarks"
FROM_TRIALS = "records' seconds per trial"
FROM_FITS = "records' seconds per example and class"
FROM_OTHERS = "a guess from other models or hardware"


def same_hardware(device: str, other: str) -> bool:
    """Returns whether two devices are alike but for their number of threads.

    >>> same_hardware("cpu (A, 1 threads)", "cpu (A, 2 threads)")
    True
    """
    return len({re.sub(r", \d+ threads\)$", ")", each) for each in (device, other)}) == 1


class HoursEstimator:
    """Estimates how long a cell takes on a device, from what was measured on it.

    Args:
        device: as `describe_device` names it.
        records: those on other hardware do not count.
        benchmark: a CSV with images_per_second of each model and device.
        precision: what networks compute in there; what was measured in it comes first, and what
            was measured in the other is converted by the models that have both. A name of
            hardware may mean processors with and without bf16.
        alike: returns whether what was measured on one device counts for the other.
    """

    def __init__(
        self, device: str, records: Records, benchmark: Path = BENCHMARK,
        precision: str | None = None, alike: Callable[[str, str], bool] = same_hardware,
    ) -> None:  # fmt: skip
        rows = pd.DataFrame(
            [
                (_all_but_budget_and_seed(record["identity"]),
                 (str(record["dataset"]), str(record["model"])), record["wall_seconds"],
                 _full_size_speed(record), record.get("trials"), record.get("precision"),
                 _fit_of(record["identity"]), _size_of_fit(record))
                for record in records.values()
                if alike(str(record["device"]), device)
            ],
            columns=["alike", "recipe", "seconds", "speed", "trials", "precision", "fit", "size"],
        )  # fmt: skip
        self._ratios = _ratios_to(precision, rows)
        ratio = rows.precision.map(self._ratios).astype(float).where(rows.speed.notna()).fillna(1.0)
        rows["speed"] = rows.speed.astype(float) * ratio
        rows["seconds"] = rows.seconds.astype(float) / ratio
        self.alike: dict[str, float] = {}
        self.trials: dict[tuple[str, str], float] = {}
        self.speeds: dict[tuple[str, str], float] = {}
        self.fits: dict[str, float] = {}
        for part in (rows, rows[rows.precision == precision]):
            numbers = part[["seconds", "speed", "trials", "size"]].astype(float)
            per_size = numbers.seconds / numbers["size"]
            self.fits |= per_size.groupby(part.fit).median().dropna().to_dict()
            per_trial = (numbers.seconds / numbers.trials).where(numbers.speed.isna())
            self.alike |= numbers.seconds.groupby(part.alike).median().to_dict()
            self.trials |= per_trial.groupby(part.recipe).median().dropna().to_dict()
            self.speeds |= numbers.speed.groupby(part.recipe).median().dropna().to_dict()
        self._rows = rows
        self.benchmark: dict[str, float] = {}
        if benchmark.is_file():
            speeds = pd.read_csv(benchmark)
            speeds = speeds[[alike(other, device) for other in speeds.device]]
            if "precision" in speeds:
                speeds.images_per_second *= (
                    speeds.precision.map(self._ratios).astype(float).fillna(1.0)
                )
            self.benchmark = dict(zip(speeds.model, speeds.images_per_second, strict=True))

    def seconds(self, cell: Cell) -> tuple[float, str]:
        """Returns (seconds, where they come from); (NaN, "") where nothing is known."""
        alike, model = _all_but_budget_and_seed(cell.identity), str(cell.identity["model"])
        recipe = (cell.dataset_name, model)
        if alike in self.alike:
            return self.alike[alike], FROM_ALIKE
        if recipe in self.trials:
            return self.trials[recipe] * cell.setting("dataset.trials"), FROM_TRIALS
        images = images_trained_on(cell)
        if recipe in self.speeds:
            return images / self.speeds[recipe], FROM_SPEED
        if model in self.benchmark:
            return images / self.benchmark[model], FROM_BENCHMARK
        if math.isnan(images) and (fit := _fit_of(cell.identity)) in self.fits:
            classes = cell.setting("dataset.num_classes") or len(
                cell.setting("dataset.classes") or "ab"
            )
            return self.fits[fit] * examples_of(cell) * classes, FROM_FITS
        return math.nan, ""

    def guess(self, cell: Cell) -> float:
        """Returns the seconds by what the same model, or any, took on other data; NaN: nothing."""
        rows = self._rows
        own = rows[rows.recipe.str[1] == cell.identity["model"]]
        images = images_trained_on(cell)
        for part in (own, rows):
            numbers = part[["seconds", "speed", "trials"]].astype(float)
            if not math.isnan(images):
                found = images / numbers.speed.median()
            else:  # no network, whose epochs and images would be known
                others = numbers[numbers.speed.isna()]
                per_trial = (others.seconds / others.trials.fillna(1)).median()
                found = per_trial * (cell.setting("dataset.trials") or 1)
            if not math.isnan(found):
                return float(found)
        return math.nan


class RoughEstimator:
    """Estimates how long any cell takes: where its own hardware says nothing, by other hardware.

    Args:
        device: as `describe_device` names it.
        records: of all hardware.
        precision: what networks compute in there.
    """

    def __init__(self, device: str, records: Records, precision: str | None = None) -> None:
        self._device, self._records, self._precision = device, records, precision
        self._made: dict[int, HoursEstimator] = {}

    def _nearest_first(self) -> Iterator[HoursEstimator]:
        """Yields the estimators of this hardware, of CPUs or of GPUs, and of all hardware."""
        for place, alike in enumerate((same_hardware, same_kind, lambda *_: True)):
            if place not in self._made:  # most cells need only the first
                self._made[place] = HoursEstimator(
                    self._device, self._records, precision=self._precision, alike=alike
                )
            yield self._made[place]

    def seconds(self, cell: Cell) -> tuple[float, str]:
        """Returns (seconds, where they come from); NaN only where no record is alike at all."""
        for place, estimator in enumerate(self._nearest_first()):
            seconds, source = estimator.seconds(cell)
            if not math.isnan(seconds):
                return seconds, source if place == 0 else FROM_OTHERS
        guesses = (estimator.guess(cell) for estimator in self._nearest_first())
        known = (seconds for seconds in guesses if not math.isnan(seconds))
        return next(known, math.nan), FROM_OTHERS


def hardware_of(device: "torch.device") -> Hardware:
    """Returns a device of this machine, and the precision that it takes."""
    from labeldp_bench.support.device import describe_device
    from labeldp_bench.training.fit import resolve_precision

    return Hardware(describe_device(device), resolve_precision("auto", device))


def same_kind(device: str, other: str) -> bool:
    """Returns whether both devices are CPUs, or both are GPUs."""
    return device.startswith("cpu") == other.startswith("cpu")


def examples_of(cell: Cell) -> float:
    """Returns how many training examples a cell has; NaN where unknown."""
    counts = cell.setting("dataset.train_counts")
    size = sum(counts) if counts else TRAINING_IMAGES.get(cell.dataset_name, math.nan)
    return float(min(size, cell.setting("dataset.limit_train") or size))


def images_trained_on(cell: Cell) -> float:
    """Returns how many images of full size pass through the network; NaN where unknown."""
    epochs, size = _epochs_of(cell), examples_of(cell)
    if epochs is None:
        return math.nan
    shares = cell.setting("learner.fractions") or [1.0]
    # Each stage trains on the releases of all stages so far.
    of_stages = sum(sum(shares[: n + 1]) for n in range(len(shares)))
    return float(size * epochs * of_stages * _full_size_per_example(cell.identity))


def _epochs_of(cell: Cell) -> float | None:
    """Returns how many epochs a fit takes, the search for its recipe with it; None without any."""
    epochs: float | None = cell.setting("trainer.epochs")
    if epochs is not None and cell.config["tuning"]:
        epochs = cell.setting("tuning.epochs") + _epochs_of_search(cell)
    return epochs


def _epochs_of_search(cell: Cell) -> float:
    """Returns how many epochs the search for a recipe takes, in those of all releases."""
    if not cell.config["tuning"]:
        return 0.0
    recipes = len(cell.setting("tuning.learning_rates")) * len(cell.setting("tuning.averages"))
    return float(cell.setting("tuning.epochs") * recipes * (1 - cell.setting("tuning.held_out")))


def _ratios_to(precision: str | None, rows: pd.DataFrame) -> dict[str, float]:
    """Returns {another precision: how many times as fast networks are in `precision`}."""
    speeds = rows.speed.astype(float).groupby([rows.recipe, rows.precision]).median().unstack()
    if precision not in speeds:
        return {}
    ratios = speeds.rdiv(speeds[precision], axis=0).median().dropna()
    return {str(name): float(ratio) for name, ratio in ratios.items()}


def _full_size_speed(record: Record) -> float | None:
    """Returns a record's images per second, in images of full size."""
    speed = record.get("images_per_second")
    return speed and speed * _full_size_per_example(record["identity"])


def _full_size_per_example(identity: Mapping[str, Any]) -> float:
    """Returns how many images of full size an example costs in the mean epoch."""
    resolution, epochs = identity.get("trainer.resolution", ()), identity.get("trainer.epochs", 1)
    if "tuning" in identity:  # its recipes have images of full size throughout
        resolution = ()
    return float(identity.get("trainer.views", 1) * mean_area(resolution, epochs))


def finished_in_time(
    cells: Sequence[Cell], environment: "Environment", seconds: float
) -> list[Cell]:
    """Returns the cells of a job that are expected to finish one after the other in `seconds`.

    The others are named on stdout; those that are done are left out. Rates come from records on
    the same hardware: those under `out_dir`, and the committed ones. A cell without an
    estimate is started, since it measures the rate; so is one that cannot be built, which fails
    alone. A cell with a checkpoint needs only its remaining epochs.
    """
    steady = [_steady(path.parent) for path in environment.out_dir.rglob("record.json")]
    known = read_committed() | {record["config_hash"]: record for record in steady}
    here = hardware_of(environment.device)
    estimator = HoursEstimator(here.name, known, precision=here.precision)
    started: list[Cell] = []
    for cell in cells:
        folder = environment.out_dir / cell.folder
        if is_done(folder):
            continue
        needed = seconds_left(cell, folder, estimator)[0]
        if seconds <= 0:
            say(f"not started: {cell.title} (the time is up)")
        elif needed > seconds:
            left = f"about {duration(needed)}, and {duration(seconds)} are left"
            say(f"not started: {cell.title} ({left})")
        else:
            started.append(cell)
            seconds -= 0 if math.isnan(needed) else needed
    return started


def _steady(folder: Path) -> Record:
    """Returns a record without the time that compiling took, which later cells need not spend.

    On a GPU a first epoch of 109 seconds came before nine of 5, and six cells that would have
    fitted were not started. Epochs beyond twice the median count as twice the median.
    """
    record, history = read_record(folder), folder / "history.csv"
    if history.is_file() and record.get("wall_seconds"):
        seconds = pd.read_csv(history).get("seconds", pd.Series(dtype=float))
        extra = (seconds - 2 * seconds.median()).clip(lower=0).sum()
        record["wall_seconds"] = max(record["wall_seconds"] - extra, 0.0)
    return record


def seconds_left(
    cell: Cell, folder: Path, estimator: HoursEstimator | RoughEstimator
) -> tuple[float, str]:
    """Returns how long a cell still takes, and where that comes from.

    The first is NaN where it is unknown, or where a setting makes no sense.
    """
    try:
        if not cell.as_stated:  # to build imports torch
            cell.build()
        seconds, source = estimator.seconds(cell)
        return seconds * _share_left(cell, folder), source
    except (InputError, TypeError, ValueError):  # `build` says what is wrong
        return math.nan, ""


def _share_left(cell: Cell, folder: Path) -> float:
    """Returns the share of a cell's epochs that it has not done yet."""
    history, epochs = folder / "history.csv", _epochs_of(cell)
    if not (folder / CHECKPOINT).is_file() or not history.is_file() or not epochs:
        return 1.0
    stages = len(cell.setting("learner.fractions") or [1.0])
    done: float = max(0, len(history.read_text().splitlines()) - 1)
    if done:  # no history has the search, and the chosen recipe's epochs come after it
        done += _epochs_of_search(cell)
    return max(0.0, 1 - done / (epochs * stages))


def _fit_of(identity: dict[str, Any]) -> str:
    """Returns the model, without its data, and what gives it features."""
    return str([(key, value) for key, value in sorted(identity.items())
                if key.split(".")[0] in ("model", "pretrain")])  # fmt: skip


def _size_of_fit(record: Record) -> float:
    """Returns examples times classes of a fit on features; NaN for what has epochs or trials."""
    identity = record["identity"]
    if record.get("epochs") or record.get("trials") or "pretrain" not in identity:
        return math.nan
    return float(record["n_train"] * identity.get("dataset.num_classes", math.nan))


def _all_but_budget_and_seed(identity: dict[str, Any]) -> str:
    """Returns what decides how long a cell takes."""
    free = ("seed", "mechanism.eps", "learner.first.eps", "budget")
    return str({key: value for key, value in sorted(identity.items()) if key not in free})
