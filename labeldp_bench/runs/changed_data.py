"""Refuses a finished run whose data file has changed since."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.support import seeding
from labeldp_bench.support.validate import InputError

USERS_OWN = "npz"
"""The data set whose file anyone may write anew under its old name; the others are published."""


def refuse_changed_data(
    cells: list[Cell], done: Mapping[str, dict[str, Any]], out_dir: Path, data_dir: Path
) -> None:
    """Raises if a finished run of a user's own file was made of other images than it holds now.

    Training labels count in no hash, so that a record tells nothing of them: a file in which only
    they differ passes. So does one that is gone.

    Args:
        cells: what is asked for.
        done: {config_hash: record} of those that are done.
        out_dir: where runs keep their records.
        data_dir: where the .npz files are.

    Raises:
        InputError: names the file, the first such run, and what to do.
    """
    now: dict[tuple[str, int], str] = {}
    for cell in cells:
        record = done.get(cell.config_hash)
        path = data_dir.expanduser() / f"{cell.dataset_name}.npz"
        if record is None or cell.identity["dataset"] != USERS_OWN or not path.is_file():
            continue
        key = (cell.data_name, cell.seed)
        if key not in now:
            dataset = hydra.utils.instantiate(cell.config["dataset"], _convert_="all")
            now[key] = dataset.draw(data_dir, seeding.derive(cell.seed, "trial", 0)).sha256
        if now[key] != record["data_sha256"]:
            raise InputError(
                f"{path.name} has other images or test labels than when {out_dir / cell.folder} "
                "was run (give the changed file another name, or delete the runs of the old one)"
            )
