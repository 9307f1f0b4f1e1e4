"""Reads releases from a file, and checks that they belong to the cell."""

from pathlib import Path

from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.mechanisms.version import DRAWS
from labeldp_bench.privacy.handover import read_releases
from labeldp_bench.privacy.noise import Drawn
from labeldp_bench.support.validate import InputError


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
