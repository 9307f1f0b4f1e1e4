"""Runs a random sample of committed records again and compares every score.

    python scripts/replay.py [n=20] [seed=0] [seconds=120] [data_dir=FOLDER] [out_dir=FOLDER]

Takes only records that are affordable here (`seconds`: the longest a cell may be expected to take),
whose data are there and which need no pre-training, since weights take minutes to train. Data that
are not there are named once, with what is missing.
A score is equal if its six committed digits are, and close if it is within 1e-4 of the committed
one, relatively: a solver that starts elsewhere, or another processor of the same name, moves it by
that little, and one of 10,000 test examples by more.
Each is run anew into `out_dir` (default: a temporary folder), so that no earlier run passes for it.
A record whose `draws` differ from today's is expected to give
other numbers, since its releases came from other random streams; one from other hardware may
differ by rounding. Exit status 1 if a record with today's draws on today's hardware is neither
equal nor close.
"""

import math
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import hydra
import pandas as pd

from labeldp.mechanisms.noise import DRAWS
from labeldp.support.progress import progress_bar, say
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, default_data_dir, integer, read_arguments
from labeldp_bench.data.tables import TableData
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import experiment_names
from labeldp_bench.experiments.experiment import read_experiment
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import fields_of, is_done, read_record
from labeldp_bench.reports.durations import Durations, hardware_name
from labeldp_bench.runs.environment import environment_of
from labeldp_bench.runs.job import run_cells
from labeldp_bench.support.device import describe_device
from labeldp_bench.support.process import prepare_training

OWN = {"n": "20", "seed": "0", "seconds": "120", "data_dir": "", "out_dir": ""}
BUDGETS = (PAPER, "quick")
OLDER_LACK = ("response_accuracy",)
"""What records of an older version do not have: that is no difference."""
EQUAL, CLOSE, DIFFERS = "equal", "close", "differs"
TOLERANCE = 1e-4
"""The relative difference up to which a score is close."""


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints a line for each replayed record."""
    own = read_arguments(arguments, OWN)
    count = integer("n", own["n"], low=1)
    longest = integer("seconds", own["seconds"], low=1)
    data_dir = own["data_dir"] or default_data_dir()
    with tempfile.TemporaryDirectory() as temporary:
        environment = environment_of(own["out_dir"] or temporary, data_dir, "auto")
        here = describe_device(environment.device)
        records = read_committed()
        affordable = _affordable(records, here, longest, environment.data_dir)
        if not affordable:
            raise InputError(
                f"no committed record is affordable here within {longest} s "
                "(give seconds=, or data_dir= where the data sets are)"
            )
        chosen = random.Random(integer("seed", own["seed"], low=0)).sample(
            affordable, min(count, len(affordable))
        )
        for cell in chosen:
            if is_done(environment.out_dir / cell.folder):  # it would pass for the new run
                raise InputError(
                    f"out_dir must have no run of a chosen record, and {own['out_dir']} has "
                    f"{cell.folder} (name an empty folder)"
                )
        say(f"{len(affordable)} of {len(records)} records are affordable; {len(chosen)} run again")
        prepare_training()
        rows = []
        for cell in progress_bar(chosen, len(chosen), "records"):
            failed = run_cells([cell], environment)
            again = None if failed else read_record(environment.out_dir / cell.folder)
            rows.append(_compared(records[cell.config_hash], again, here))
            say(f"{rows[-1]['verdict']:>8}  {cell.title}: {rows[-1]['why']}")
    table = pd.DataFrame(rows)
    counted = table.groupby(["expected", "verdict"]).size().reset_index(name="records")
    say(f"\n{counted.to_markdown(index=False)}")
    return int(((table.expected == EQUAL) & ~table.verdict.isin((EQUAL, CLOSE))).any())


def _affordable(
    records: dict[str, dict[str, Any]], here: str, longest: int, data_dir: Path
) -> list[Cell]:
    """Returns the cells of committed records that can be run here in time, in a fixed order.

    Says which data are not there, and why.
    """
    durations = Durations(here, records)
    cells: dict[str, Cell] = {}
    names = experiment_names()
    for name in progress_bar(names, len(names), "experiments"):
        for budget in BUDGETS:
            for cell in read_experiment(name).cells(budget):
                cells.setdefault(cell.config_hash, cell)
    in_time = [
        cell
        for key, cell in sorted(cells.items())
        if key in records and not cell.pretrain_recipe and durations.seconds(cell)[0] <= longest
    ]
    one_each = {cell.data_name: cell for cell in in_time}
    why = {name: _missing(cell, data_dir) for name, cell in one_each.items()}
    for text in dict.fromkeys(filter(None, why.values())):
        say(f"left out: {text}")
    return [cell for cell in in_time if why[cell.data_name] is None]


def _missing(cell: Cell, data_dir: Path) -> str | None:
    """Returns what a cell's data lack; None where they are there, as synthetic data always are."""
    name = cell.setting("dataset.source") or cell.setting("dataset.name")
    if name is not None:
        is_there = (data_dir / f"{name}.npz").is_file()
        return None if is_there else f"{name}: there is no {name}.npz in {data_dir}"
    dataset = hydra.utils.instantiate(cell.config["dataset"], _convert_="all")
    if isinstance(dataset, TableData):
        try:
            dataset.read(data_dir)
        except InputError as error:
            return f"{cell.dataset_name}: {error}"
    return None


def _compared(before: dict[str, Any], again: dict[str, Any] | None, here: str) -> dict[str, str]:
    """Returns verdict, expectation and reason for one record."""
    draws = int(before["draws"])
    alike = hardware_name(str(before["device"])) == hardware_name(here)
    current = DRAWS if again is None else again["draws"]
    expected = EQUAL if draws == current and alike else f"draws {draws}" if alike else "hardware"
    if again is None:
        return {"expected": expected, "verdict": "failed", "why": "see its error.txt"}
    changed = [
        key
        for key in fields_of("replayed")
        if _text(before[key]) != _text(again.get(key))
        and not (key in OLDER_LACK and before[key] is None)
    ]
    why = "; ".join(f"{key} {_text(before[key])} -> {_text(again.get(key))}" for key in changed)
    is_close = all(_is_close(before[key], again.get(key)) for key in changed)
    verdict = EQUAL if not changed else CLOSE if is_close else DIFFERS
    return {"expected": expected, "verdict": verdict, "why": why or "every number"}


def _is_close(before: object, again: object) -> bool:
    """Returns whether two scores are both there and differ by rounding alone."""
    if before is None or again is None:
        return False
    return math.isclose(float(str(before)), float(str(again)), rel_tol=TOLERANCE)


def _text(number: object) -> str:
    """Returns a number as results/records.csv has it: six digits."""
    return "" if number is None else f"{float(str(number)):.6g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
