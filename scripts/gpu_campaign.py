"""Fills the missing cells of experiments on a machine that is lent for a limited time.

    python scripts/gpu_campaign.py --minutes 9 vector_approximation/table2 blockrr/table3 \
        [override ...] [--merge records.tar.gz] [--records records.tar.gz checkpoints.tar.gz]

Measures the device, then trains: of every cell one seed, eps 1 and 2 first, then the rest. Done are
cells with a record in results/records.csv or under the folder of runs. When time is up it stops,
and the cell under way goes on from its checkpoint in the next call. At the end the records lie in
one archive, and checkpoints, which are large, in a second one beside it; `--records` unpacks those
of an earlier call first. Overrides, such as `trainer.epochs=2`, hold for every cell.
"""

import argparse
import os
import signal
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from labeldp_bench.host import keep_memory, prepare_threads

prepare_threads()  # before torch, which reads the setting

import torch  # noqa: E402
from hydra.errors import HydraException  # noqa: E402

from labeldp_bench import sweeper  # noqa: E402
from labeldp_bench.blocks import expand  # noqa: E402
from labeldp_bench.budget import scaled  # noqa: E402
from labeldp_bench.ceilings import ceilings  # noqa: E402
from labeldp_bench.checkpoint import NAME  # noqa: E402
from labeldp_bench.collect import find_done  # noqa: E402
from labeldp_bench.config import (  # noqa: E402
    PAPER,
    Cell,
    compose_cell,
    experiment_names,
)
from labeldp_bench.experiments import read_experiment  # noqa: E402
from labeldp_bench.models.network import resolve_precision  # noqa: E402
from labeldp_bench.place import Place, describe_device, place_of  # noqa: E402
from labeldp_bench.progress import duration, say  # noqa: E402
from labeldp_bench.run import run_cells  # noqa: E402
from labeldp_bench.validate import InputError, check_choice  # noqa: E402

KEPT = ("record.json", "history.csv", "confusion.csv", "per_class.csv", "error.txt")
CHECKPOINTS = "checkpoints.tar.gz"
FIRST = (1.0, 2.0)
SPARE_SECONDS = 20.0
"""Left at the end for the archive."""


class TimeIsUp(KeyboardInterrupt):
    """Ends the cell under way; runs let it pass like Ctrl-C."""


def cells_of(name: str, overrides: Sequence[str]) -> list[Cell]:
    """Returns the cells of an experiment, with `overrides` in each."""
    check_choice("experiment", name, experiment_names())
    axes = {"budget": [PAPER]}
    for text in overrides:
        key, _, value = text.partition("=")
        axes[key] = [value]
    blocks = read_experiment(name).blocks or []
    return [compose_cell(scaled(own)) for own in expand(blocks, axes)]


def order(cells: Sequence[Cell]) -> list[Cell]:
    """Returns cells in order of worth: one seed of each, eps 1 and 2 before others, then the rest.

    Later seeds come round by round, so that a table fills evenly.
    """
    seeds: dict[str, list[int]] = {}
    for cell in cells:
        seeds.setdefault(_without_seed(cell), []).append(cell.seed)

    def worth(cell: Cell) -> tuple[int, bool]:
        place = sorted(seeds[_without_seed(cell)]).index(cell.seed)
        eps = cell.identity.get("mechanism.eps")
        return place, eps is not None and float(eps) not in FIRST

    return sorted(cells, key=worth)  # stable: otherwise in the order of the experiments


def _without_seed(cell: Cell) -> str:
    return str({key: value for key, value in cell.identity.items() if key != "seed"})


def train(cells: Sequence[Cell], place: Place, until: float) -> int:
    """Trains missing cells until the clock says `until`; returns how many got their record."""
    pairs = [(cell, []) for cell in order(cells)]
    jobs = [[cell for cell, _ in job] for job in sweeper.group(pairs, place.device.type)]
    done = 0

    def stop(_: int, __: FrameType | None) -> NoReturn:
        raise TimeIsUp

    signal.signal(signal.SIGALRM, stop)
    try:
        for job in jobs:
            left = until - time.monotonic()
            if left <= 0:
                break
            title = sweeper.title(job)
            say(f"[{done} done, {duration(left)} left] {title}")
            signal.setitimer(signal.ITIMER_REAL, left)
            failed = run_cells(job, place)
            done += len(job) - len(failed)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeIsUp:
        say("time is up: the cell under way goes on from its checkpoint")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return done


def pack(folder: Path, archive: Path, names: Sequence[str]) -> int:
    """Writes the files of `folder` with these names into an archive; returns how many."""
    files = [path for path in sorted(folder.rglob("*")) if path.name in names]
    partial = archive.with_name(f"{archive.name}.partial")
    with tarfile.open(partial, "w:gz") as tar:
        for path in files:
            tar.add(path, path.relative_to(folder))
    partial.replace(archive)
    return len(files)


def unpack(archive: Path, folder: Path) -> None:
    """Takes up an archive of an earlier call; members outside `folder` are refused."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def main(arguments: list[str]) -> int:
    """Measures, trains, merges; returns the exit status."""
    parser = argparse.ArgumentParser(description="Missing cells of experiments, within a time.")
    parser.add_argument("experiments", nargs="+", metavar="experiment or override")
    parser.add_argument("--minutes", type=float, required=True, help="time for the whole call")
    parser.add_argument("--out-dir", default="results/runs")
    parser.add_argument("--data-dir", default=None, help="default: LABELDP_DATA, else data")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--merge", type=Path, default=Path("records.tar.gz"))
    parser.add_argument(
        "--records", type=Path, nargs="*", default=[], help="archives of an earlier call"
    )
    options = parser.parse_args(arguments)
    until = time.monotonic() + 60 * options.minutes - SPARE_SECONDS
    try:
        data_dir = options.data_dir or os.environ.get("LABELDP_DATA", "data")
        place = place_of(options.out_dir, data_dir, options.device)
        names = [text for text in options.experiments if "=" not in text]
        overrides = [text for text in options.experiments if "=" in text]
        listed = [cell for name in names for cell in cells_of(name, overrides)]
        cells = {cell.config_hash: cell for cell in listed}
    except (InputError, HydraException) as error:
        parser.error(str(error))
    for archive in options.records:
        unpack(archive, place.out_dir)
    keep_memory()
    measured = ceilings(place.device, resolve_precision("auto", place.device))
    say(f"{describe_device(place.device)}, torch {torch.__version__}: {measured}")
    done = find_done(list(cells.values()), place.out_dir, committed=True)
    missing = [cell for key, cell in cells.items() if key not in done]
    say(f"{len(cells)} cells, {len(missing)} missing")
    made = train(missing, place, until)
    kept = pack(place.out_dir, options.merge, KEPT)
    pack(place.out_dir, options.merge.with_name(CHECKPOINTS), [NAME])
    say(f"{made} records made, {len(missing) - made} left; {kept} files in {options.merge}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
