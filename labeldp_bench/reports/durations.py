"""How long a cell takes: the median seconds per image of what was measured. Imports no torch.

An image is one training example in one epoch and one trial. The median is of the nearest kind that
was measured: the same cell but for its seed, eps and length; the same learner and model; the same
model. First come measurements on the same hardware, then those on any CPU or any GPU.
"""

import csv
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from labeldp.support.progress import duration, say
from labeldp.support.validate import InputError
from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import choices_of, compose_cell, key_of
from labeldp_bench.experiments.experiment import NoVersionError, scaled
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_lengths
from labeldp_bench.records.record import CHECKPOINT, Records, is_done, read_record
from labeldp_bench.reports.naming import counted
from labeldp_bench.support.checkout import CHECKOUT

if TYPE_CHECKING:  # it imports torch, which a forecast need not wait for
    from labeldp_bench.runs.environment import Environment

BENCHMARKS = CHECKOUT / "results" / "benchmarks"
"""Its files training_*.csv have images per second of each network."""
FROM_CELL = "records of the same cell"
FROM_MODEL = "records of the same model"
FROM_OTHERS = "a guess from other hardware"
LENGTH = (
    "seed",
    "mechanism.eps",
    "learner.first.eps",
    "budget",
    "trainer.epochs",
    "dataset.trials",
)
"""What a cell may have otherwise, and take as long for an image."""
SHORT_SECONDS = 60.0
HOUR = 3600.0
TOO_SMALL = "smoke"
"""The budget whose numbers mean nothing."""


class Durations:
    """Says how long cells take on a device.

    Args:
        device: as `describe_device` names it.
        records: of any hardware.
    """

    def __init__(self, device: str, records: Records) -> None:
        self._device = hardware_name(device)
        rates: dict[tuple[str, ...], list[float]] = {}
        for record in records.values():
            places = self._places(str(record.get("device")))
            if places and (seconds := record.get("wall_seconds")):
                rate = seconds / _images_of(record["identity"])
                for kind in _kinds(record["identity"]):
                    for place in places:
                        rates.setdefault((place, *kind), []).append(rate)
        for path in sorted(BENCHMARKS.glob("training_*.csv")):
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    for place in self._places(row["device"]):
                        speed = float(row["images_per_second"])
                        rates.setdefault((place, "", row["model"]), []).append(1 / speed)
        self._rates = {key: median(each) for key, each in rates.items()}

    def _places(self, device: str) -> list[str]:
        """Returns for which hardware it counts what was measured on `device`; here, or anywhere."""
        name, kinds = hardware_name(device), {_is_cpu(device), _is_cpu(self._device)}
        return ["here"] * (name == self._device) + ["anywhere"] * (len(kinds) == 1)

    def seconds(self, cell: Cell) -> tuple[float, str]:
        """Returns (seconds, where they come from); (NaN, "") where nothing is known.

        The first is NaN too where a setting makes no sense.
        """
        try:
            images, kinds = _images_of(cell.identity), _kinds(cell.identity)
            for place in ("here", "anywhere"):
                for number, kind in enumerate(kinds):
                    if (rate := self._rates.get((place, *kind))) is not None:
                        source = FROM_MODEL if number else FROM_CELL
                        return rate * images, source if place == "here" else FROM_OTHERS
        except (InputError, TypeError, ValueError):  # `build` says what is wrong
            pass
        return math.nan, ""

    def seconds_left(self, cell: Cell, folder: Path) -> tuple[float, str]:
        """Returns the same for the epochs that a cell with a checkpoint has not trained yet."""
        seconds, source = self.seconds(cell)
        history = folder / "history.csv"
        epochs = cell.setting("tuning.epochs" if cell.config["tuning"] else "trainer.epochs")
        if (folder / CHECKPOINT).is_file() and history.is_file() and epochs:
            stages = len(cell.setting("learner.fractions") or [1.0])
            done = max(0, len(history.read_text().splitlines()) - 1)
            seconds *= max(0.0, 1 - done / (epochs * stages))
        return seconds, source


def hardware_name(device: str) -> str:
    """Returns a device's name without its number of threads.

    >>> hardware_name("cpu (A, 2 threads)")
    'cpu (A)'
    """
    return re.sub(r", \d+ threads\)$", ")", device)


def examples_of(identity: Mapping[str, Any]) -> float:
    """Returns how many training examples a cell has; NaN where only its file says."""
    counts = identity.get("dataset.train_counts")
    official = OFFICIAL.get(identity.get("dataset.source", identity["dataset"]))
    size = sum(counts) if counts else official.n_train if official else math.nan
    size = identity.get("dataset.n_train", size)
    return float(min(size, identity.get("dataset.limit_train") or size))


def _images_of(identity: Mapping[str, Any]) -> float:
    """Returns how many images a cell learns from; where its size is unknown, of one example."""
    examples = examples_of(identity)
    passes = identity.get("trainer.epochs", 1) * identity.get("dataset.trials", 1)
    return (1.0 if math.isnan(examples) else examples) * float(passes)


def _kinds(identity: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Returns what tells how long an image takes, the nearest kind first."""
    data = identity.get("dataset.name", identity["dataset"])
    unit = str(data) if math.isnan(examples_of(identity)) else ""
    model = str(identity["model"])
    alike = str([(key, value) for key, value in sorted(identity.items()) if key not in LENGTH])
    return [(alike,), (unit, model, identity["learner"], str("tuning" in identity)), (unit, model)]


def _is_cpu(device: str) -> bool:
    return device.startswith("cpu")


def _durations_of(cells: Sequence[Cell], out_dir: Path, device: str) -> Durations:
    """Returns what the committed records tell of cells, and those under `out_dir` of their data."""
    folders = {out_dir / cell.dataset_name for cell in cells}
    records = read_lengths({cell.choices["model"] for cell in cells})
    return Durations(device, records | dict(itertools.chain.from_iterable(map(_own, folders))))


def _own(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in folder.rglob("record.json"):
        try:
            record = read_record(path.parent)
        except InputError:  # whoever asks for that run is told
            continue
        yield record["config_hash"], record


def say_forecast(cell: Cell, out_dir: Path, device: str, overrides: Sequence[str]) -> None:
    """Says how long a run takes on this device; of a long one also which versions fit in an hour.

    Says nothing of a run that is done, takes less than a minute, or of which nothing is known.

    Args:
        cell: the run.
        out_dir: holds the runs' folders.
        device: where it computes, as a record names it.
        overrides: of the command line.
    """
    cell = replace(cell, as_stated=True)
    folder = out_dir / cell.folder
    if is_done(folder):
        return
    durations = _durations_of([cell], out_dir, device)
    seconds, source = durations.seconds_left(cell, folder)
    if not seconds >= SHORT_SECONDS:  # NaN: nothing is known
        return
    say(f"about {_time_of(cell, seconds)} on this device, by {source}")
    if seconds > HOUR and (fitting := _fitting(cell, out_dir, device, overrides)):
        say(f"  in an hour: {', or '.join(fitting)}")
    if cell.setting("trainer.epochs") and seconds > HOUR:
        say("  Ctrl-C keeps what a checkpoint holds: repeat the command")


def _fitting(cell: Cell, out_dir: Path, device: str, overrides: Sequence[str]) -> list[str]:
    """Returns what to add to a command so that it ends within an hour, the longest run first."""
    versions: dict[str, Cell] = {}
    keys = [key_of(text) for text in overrides]
    others = choices_of("budget").keys() - {PAPER, TOO_SMALL}
    for name in sorted(others) if cell.budget == PAPER else ():
        try:
            smaller = compose_cell(scaled([*overrides, f"budget={name}"], keys))
        except NoVersionError:
            continue
        versions[f"budget={name}"] = replace(smaller, as_stated=True)
    durations = _durations_of([cell, *versions.values()], out_dir, device)
    options: dict[str, tuple[float, Cell]] = {}
    seconds, _ = durations.seconds(cell)
    epochs = cell.setting("trainer.epochs")
    if epochs and not cell.config["tuning"] and (few := int(epochs * HOUR / seconds)):
        options[f"trainer.epochs={few}"] = seconds * few / epochs, cell
    for text, smaller in versions.items():
        needed, _ = durations.seconds(smaller)
        if needed <= HOUR and smaller.config_hash != cell.config_hash:
            options[text] = needed, smaller
    longest_first = sorted(options.items(), key=lambda option: -option[1][0])
    return [f"{text} ({_time_of(each, needed)})" for text, (needed, each) in longest_first]


def _time_of(cell: Cell, seconds: float) -> str:
    """Returns how long a cell takes, and that computing an encoder's features comes on top once."""
    encodes = cell.choices["pretrain"] == "imagenet"
    more = ", and minutes more the first time, when the images are encoded"
    return duration(seconds) + more * encodes


def say_sweep_forecast(
    cells: Sequence[Cell],
    environment: "Environment",
    smaller: Callable[[str], Sequence[Cell]],
) -> None:
    """Says how long the cells of a sweep take one after the other, if that is above an hour.

    Args:
        cells: to be run.
        environment: folders and device.
        smaller: returns the cells of a budget's version, or none.
    """
    durations = _durations_for(cells, environment)
    known = [durations.seconds_left(cell, environment.out_dir / cell.folder) for cell in cells]
    if not (total := sum(s for s, _ in known if not math.isnan(s))) > HOUR:
        return
    unknown = sum(math.isnan(seconds) for seconds, _ in known)
    more = f", and nothing is known of {counted([unknown], 'cell')}" if unknown else ""
    by = " and ".join(sorted({source for _, source in known if source})) + more
    what = counted([len(cells)], "cell")
    say(f"{what} to run take {duration(total)} on this device, by {by}")
    for name in sorted(choices_of("budget").keys() - {PAPER, TOO_SMALL}):
        version = smaller(name)
        durations = _durations_for(version, environment)
        times = [durations.seconds(replace(cell, as_stated=True))[0] for cell in version]
        if version and sum(times) < total:  # NaN: unknown
            what = _time_of(version[0], sum(times))
            say(f"  budget={name}: {counted([len(version)], 'cell')}, {what}")


def too_long(cells: Sequence[Cell], environment: "Environment", seconds: float) -> dict[str, float]:
    """Returns {config_hash: seconds} of the cells that `seconds` cannot be enough for."""
    durations, found = _durations_for(cells, environment), {}
    for cell in cells:
        needed, source = durations.seconds_left(cell, environment.out_dir / cell.folder)
        if needed > seconds and source != FROM_OTHERS:
            found[cell.config_hash] = needed
    return found


def _durations_for(cells: Sequence[Cell], environment: "Environment") -> Durations:
    from labeldp_bench.support.device import describe_device

    return _durations_of(cells, environment.out_dir, describe_device(environment.device))


def finished_in_time(
    cells: Sequence[Cell], environment: "Environment", seconds: float
) -> list[Cell]:
    """Returns the cells of a job that are expected to finish one after the other in `seconds`.

    The others are named on stdout; those that are done are left out. A cell of which nothing was
    measured on this hardware is started: it measures. A cell with a checkpoint needs only its
    remaining epochs.
    """
    durations = _durations_for(cells, environment)
    started: list[Cell] = []
    for cell in cells:
        folder = environment.out_dir / cell.folder
        if is_done(folder):
            continue
        needed, source = durations.seconds_left(cell, folder)
        needed = 0.0 if math.isnan(needed) or source == FROM_OTHERS else needed
        if seconds <= 0:
            say(f"not started: {cell.title} (the time is up)")
        elif needed > seconds:
            left = f"about {duration(needed)}, and {duration(seconds)} are left"
            say(f"not started: {cell.title} ({left})")
        else:
            started.append(cell)
            seconds -= needed
    return started
