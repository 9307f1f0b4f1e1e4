"""What a person is told before a run starts: how long it takes here, and what fits in an hour."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from labeldp.support.progress import duration, say
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import choices_of, compose_cell, key_of
from labeldp_bench.experiments.experiment import NoVersionError, scaled
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import is_done
from labeldp_bench.reports.estimates import (
    FROM_OTHERS,
    RoughEstimator,
    images_trained_on,
    seconds_left,
)
from labeldp_bench.support.hardware import Hardware

SHORT_SECONDS = 60.0
HOUR = 3600.0
TOO_SMALL = "smoke"
"""The budget whose numbers mean nothing."""


def say_forecast(cell: Cell, out_dir: Path, hardware: Hardware, overrides: Sequence[str]) -> None:
    """Says how long a run takes on this device; of a long one also which versions fit in an hour.

    By rates that were measured before: the run itself can tell only after some steps, which on a
    CPU may be minutes. Says nothing of a run that is done or takes less than a minute. Needs no
    torch, whose import alone takes seconds.

    Args:
        cell: the run.
        out_dir: holds the runs' folders.
        hardware: where it computes.
        overrides: of the command line.
    """
    cell = replace(cell, as_stated=True)
    folder = out_dir / cell.folder
    if is_done(folder):
        return
    estimator = RoughEstimator(hardware.name, read_committed(), hardware.precision)
    seconds, source = seconds_left(cell, folder, estimator)
    is_vague = source == FROM_OTHERS and math.isnan(images_trained_on(cell))
    if is_vague or not seconds >= SHORT_SECONDS:  # NaN: nothing is known
        return
    say(f"about {_time_of(cell, seconds)} on this device, by {source}")
    if seconds > HOUR and (fitting := _fitting(cell, estimator, overrides)):
        say(f"  in an hour: {', or '.join(fitting)}")
    if cell.setting("trainer.epochs") and seconds > HOUR:
        say("  Ctrl-C keeps what a checkpoint holds, and the same command goes on from it")


def _fitting(cell: Cell, estimator: RoughEstimator, overrides: Sequence[str]) -> list[str]:
    """Returns what to add to a command so that it ends within an hour, the longest run first."""
    options: dict[str, tuple[float, Cell]] = {}
    seconds, _ = estimator.seconds(cell)
    epochs = cell.setting("trainer.epochs")
    if epochs and not cell.config["tuning"] and (few := int(epochs * HOUR / seconds)):
        options[f"trainer.epochs={few}"] = seconds * few / epochs, cell
    keys = [key_of(text) for text in overrides]
    others = choices_of("budget").keys() - {PAPER, TOO_SMALL}
    for name in sorted(others) if cell.budget == PAPER else ():
        try:
            smaller = compose_cell(scaled([*overrides, f"budget={name}"], keys))
        except NoVersionError:
            continue
        smaller = replace(smaller, as_stated=True)
        needed, _ = estimator.seconds(smaller)
        if needed <= HOUR and smaller.config_hash != cell.config_hash:
            options[f"budget={name}"] = needed, smaller
    longest_first = sorted(options.items(), key=lambda option: -option[1][0])
    return [f"{text} ({_time_of(each, needed)})" for text, (needed, each) in longest_first]


def _time_of(cell: Cell, seconds: float) -> str:
    """Returns how long a cell takes, and that computing an encoder's features comes on top once."""
    encodes = cell.choices["pretrain"] == "imagenet"
    more = ", and minutes more the first time, when the images are encoded"
    return duration(seconds) + more * encodes
