"""Reads releases from a file, and checks that they belong to the cell."""

import hashlib
from pathlib import Path

from labeldp.mechanisms.noise import DRAWS
from labeldp.store.noise import Drawn
from labeldp.store.release_io import read_releases
from labeldp.support.validate import InputError
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.identity import SEEDED
from labeldp_bench.records.record import read_record
from labeldp_bench.runs.environment import Environment

NOTE = "releases_sha256"
"""What a record calls the file of releases that it was learnt from."""


def manifest_of(cell: Cell, data: DataBundle) -> dict[str, object]:
    """Returns what must be the same where releases are drawn and where one learns from them."""
    return {
        "dataset": cell.data_name,
        "data_sha256": data.sha256,
        "labels": len(data.vault),
        "seed": cell.seed,
        "noise": cell.noise,
        "draws": DRAWS,
    }


def stored_releases(path: Path, cell: Cell, data: DataBundle) -> dict[str, Drawn]:
    """Returns the releases of a file, for a vault whose labels are absent.

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
