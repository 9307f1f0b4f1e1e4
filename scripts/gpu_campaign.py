"""Fills the missing cells of experiments on a machine that is lent for a limited time.

    python scripts/gpu_campaign.py minutes=9 experiment=vector_approximation/table2,blockrr/table3 \
        [trainer.epochs=2 ...] [merge=records.tar.gz] [records=records.tar.gz,checkpoints.tar.gz] \
        [device=cuda] [data_dir=FOLDER] [out_dir=FOLDER] [checkpoint_epochs=1]

Measures the device, then trains: of every cell one seed, eps 1 and 2 first, then the rest. Done are
cells with a record in results/records.csv or under the folder of runs. When time is up it stops,
and the cell under way goes on from its checkpoint in the next call. After each job the records lie
in one archive, `merge`; at the end checkpoints, which are large (ResNet-18: 85 MiB), lie in a
second one beside it. `records` unpacks those of an earlier call first. Overrides, such as
`trainer.epochs=2`, hold for every cell.
"""

import gzip
import math
import signal
import sys
import tarfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from labeldp_bench.host import prepare_threads, prepare_training

prepare_threads()  # before torch, which reads the setting

import torch  # noqa: E402

from labeldp_bench import sweeper  # noqa: E402
from labeldp_bench.benchmarks.ceilings import ceilings  # noqa: E402
from labeldp_bench.cell import Cell  # noqa: E402
from labeldp_bench.checkpoint import NAME  # noqa: E402
from labeldp_bench.collect import find_done  # noqa: E402
from labeldp_bench.config import experiment_names  # noqa: E402
from labeldp_bench.experiments import blocks_of, cells_of  # noqa: E402
from labeldp_bench.files import replacing  # noqa: E402
from labeldp_bench.models.network import resolve_precision  # noqa: E402
from labeldp_bench.place import Place, describe_device, place_of  # noqa: E402
from labeldp_bench.progress import duration, say  # noqa: E402
from labeldp_bench.run import run_cells  # noqa: E402
from labeldp_bench.script import (  # noqa: E402
    command,
    default_data_dir,
    integer,
    listed,
    output_file,
    split_arguments,
)
from labeldp_bench.validate import InputError  # noqa: E402

KEPT = ("record.json", "history.csv", "confusion.csv", "per_class.csv", "error.txt")
CHECKPOINTS = "checkpoints.tar.gz"
OWN = {
    "minutes": "", "experiment": "", "merge": "records.tar.gz", "records": "", "device": "auto",
    "out_dir": "results/runs", "checkpoint_epochs": "",
}  # fmt: skip
FIRST = (1.0, 2.0)
SPARE_SECONDS = 20.0
"""Left at the end for the archive."""


class TimeIsUp(KeyboardInterrupt):
    """Ends the cell under way; runs let it pass like Ctrl-C."""


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


def train(cells: Sequence[Cell], place: Place, until: float, merge: Path) -> int:
    """Trains missing cells until the clock says `until`; returns how many got their record.

    The archive `merge` is written after every job: what kills this process does not take it away.
    """
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
            # Again every five seconds: an exception in a destructor is lost.
            signal.setitimer(signal.ITIMER_REAL, left, 5)
            failed = run_cells(job, place)
            done += len(job) - len(failed)
            signal.setitimer(signal.ITIMER_REAL, 0)
            pack(place.out_dir, merge, KEPT)
    except TimeIsUp:
        signal.setitimer(signal.ITIMER_REAL, 0)  # what has a checkpoint has said so
        say("time is up")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return done


def pack(folder: Path, archive: Path, names: Sequence[str]) -> int:
    """Writes the files of `folder` with these names into an archive; returns how many."""
    files = [path for path in sorted(folder.rglob("*")) if path.name in names]
    with replacing(archive) as partial, tarfile.open(partial, "w:gz") as tar:
        for path in files:
            tar.add(path, path.relative_to(folder))
    return len(files)


def unpack(archive: Path, folder: Path) -> None:
    """Takes up an archive of an earlier call; members outside `folder` are refused."""
    if not archive.is_file():
        raise InputError(f"records must be archives of an earlier call, got '{archive}' (no file)")
    root = folder.resolve()
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            while tar.fileobj.read(2**20):  # to the end, where the checksum is
                pass
            for member in members:  # tarfile's own filter came with Python 3.11.4 only
                if not member.isfile() or not (root / member.name).resolve().is_relative_to(root):
                    raise InputError(
                        f"'{archive}' holds {member.name!r}, which is no file of a run"
                    )
            for member in members:
                path, content = root / member.name, tar.extractfile(member)
                assert content is not None
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(
            f"records must be archives of an earlier call, got '{archive}' (no whole .tar.gz)"
        ) from None


def minutes(text: str) -> float:
    """Returns the time for the whole call.

    Raises:
        InputError: it is not given, or no number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(
            f"minutes must be a number >= 0, the time for the whole call, got {text!r}"
        )
    return value


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, trains, merges; returns the exit status."""
    own, axes = split_arguments(arguments, OWN | {"data_dir": default_data_dir()})
    until = time.monotonic() + 60 * minutes(own["minutes"]) - SPARE_SECONDS
    names = listed(own["experiment"])
    if not names:
        raise InputError(
            f"experiment must be given: one or more of {', '.join(experiment_names())}"
        )
    blocks = [block for name in names for block in blocks_of(name)]
    cells = {cell.config_hash: cell for cell in cells_of(blocks, axes)}
    sweeper.check_effect(axes, list(cells.values()))
    every = own["checkpoint_epochs"]
    place = place_of(
        own["out_dir"], own["data_dir"], own["device"],
        integer("checkpoint_epochs", every, low=1) if every else None,
    )  # fmt: skip
    merge = output_file("merge", own["merge"])
    for archive in listed(own["records"]):
        unpack(Path(archive), place.out_dir)
    prepare_training()
    measured = ceilings(place.device, resolve_precision("auto", place.device))
    say(f"{describe_device(place.device)}, torch {torch.__version__}: {measured}")
    done = find_done(list(cells.values()), place.out_dir, committed=True)
    missing = [cell for key, cell in cells.items() if key not in done]
    say(f"{len(cells)} cells, {len(missing)} missing")
    made = train(missing, place, until, merge)
    kept = pack(place.out_dir, merge, KEPT)
    pack(place.out_dir, merge.with_name(CHECKPOINTS), [NAME])
    say(f"{made} records made, {len(missing) - made} left; {kept} files in {merge}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
