"""Where a run's files lie, and the releases that another process drew."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from labeldp.mechanisms.noise import DRAWS
from labeldp.store import Drawn
from labeldp.support.files import writable_folder
from labeldp.support.validate import InputError, check_integer
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.identity import SEEDED
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.release_io import read_releases
from labeldp_bench.support.device import own_gpu, resolve_device


@dataclass(frozen=True)
class Environment:
    """Where runs happen.

    Attributes:
        out_dir: holds the runs' folders.
        data_dir: holds the data sets.
        device: where networks live.
        checkpoint_epochs: epochs from one checkpoint to the next; None: one a minute; 0: none.
        release_only: the file to write releases to, in place of a run.
        releases: the file of another process's releases, which a run learns from; the labels stay
            closed.
        captures: whether a GPU's steps are recorded as one CUDA graph.
    """

    out_dir: Path
    data_dir: Path
    device: torch.device
    checkpoint_epochs: int | None = None
    release_only: Path | None = None
    releases: Path | None = None
    captures: bool = False

    def on_own_card(self) -> "Environment":
        """Returns the same for the process that runs: of several GPUs it takes one for itself."""
        return replace(self, device=own_gpu(self.device))


def environment_of(
    out_dir: str,
    data_dir: str,
    device: str,
    checkpoint_epochs: int | None = None,
    release_only: str | None = None,
    releases: str | None = None,
    capture: bool = False,
) -> Environment:
    """Returns the environment that these keys name; makes the folder `out_dir`.

    Raises:
        InputError: a device that is not there, or an `out_dir` that one cannot write to.
    """
    if not data_dir:
        raise InputError("data_dir must be a folder, got ''")
    if checkpoint_epochs is not None:
        check_integer("checkpoint_epochs", checkpoint_epochs, low=0)
    if releases is not None and not Path(releases).expanduser().is_file():
        raise InputError(
            f"releases must be a file: there is no {releases} (release_only= makes one)"
        )
    hardware = resolve_device(device)
    folder = writable_folder(out_dir, f"out_dir must be a folder one can write to, got {out_dir!r}")
    return Environment(
        folder,
        Path(data_dir).expanduser(),
        hardware,
        checkpoint_epochs,
        Path(release_only).expanduser() if release_only is not None else None,
        Path(releases).expanduser() if releases is not None else None,
        capture,
    )


NOTE = "releases_sha256"
"""What a record calls the file of releases that it was learnt from."""


def manifest_of(cell: Cell, data: DataBundle) -> dict[str, object]:
    """Returns what must be the same where releases are drawn and where one learns from them."""
    return {
        "dataset": cell.data_name,
        "data_sha256": data.sha256,
        "labels": len(data.store),
        "seed": cell.seed,
        "noise": cell.noise,
        "draws": DRAWS,
    }


def stored_releases(path: Path, cell: Cell, data: DataBundle) -> dict[str, Drawn]:
    """Returns the releases of a file, for a store whose labels are absent.

    Raises:
        InputError: no such file, or it is of other data, another seed or another noise.
    """
    manifest, drawn = read_releases(path)
    for key, wanted in manifest_of(cell, data).items():
        if manifest.get(key) != wanted:
            raise InputError(
                f"{path} was released with {key}={manifest.get(key)}, and this run has "
                f"{key}={wanted} (both need the same)"
            )
    return drawn


def which_releases(cell: Cell, environment: Environment) -> dict[str, str]:
    """Returns what names the releases that a run takes from a file, for its record.

    Two draws with secret noise differ, and nothing else in a cell says so. Seeded noise has its
    seed, and a file of it gives the record that a run without a file gives.
    """
    if environment.releases is None or cell.noise == SEEDED:
        return {}
    return {NOTE: hashlib.sha256(environment.releases.read_bytes()).hexdigest()}


def refuse_other_releases(cell: Cell, environment: Environment) -> None:
    """Refuses to show a record that was learnt from other releases than those asked for.

    Raises:
        InputError: the run is done, from another draw of the labels.
    """
    folder = environment.out_dir / cell.folder
    wanted = which_releases(cell, environment)
    if wanted and (read_record(folder).get("notes") or {}).get(NOTE) != wanted[NOTE]:
        raise InputError(
            f"{folder} has a record of this run that was learnt from other releases than "
            f"{environment.releases} (give another out_dir, or delete that folder)"
        )
