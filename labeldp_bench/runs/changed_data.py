"""Compares the data at hand with those that finished results were made on."""

from pathlib import Path

import hydra

from labeldp.support import seeding
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.data.images import file_of
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.records.record import Records, is_done

DIGITS_SHOWN = 16
"""Digits of a hash that a message shows."""


def refuse_changed_data(cells: list[Cell], done: Records, out_dir: Path, data_dir: Path) -> None:
    """Raises if a finished run was made on other data than its file holds now.

    What counts is `data_sha256`: features and test labels, in their order. Training labels are in
    no hash, so that a record tells nothing of them. Of stored results a line says that they differ,
    as copies of CIFAR in another order do too. Images that are not there are compared with nothing.

    Args:
        cells: what is asked for.
        done: {config_hash: record} of those that are done.
        out_dir: where runs keep their records.
        data_dir: where the .npz files are.

    Raises:
        InputError: names the file, both hashes, and what to do; or a table's file cannot be read.
    """
    drawn: dict[tuple[str, int | None], str] = {}
    reported: set[Path] = set()
    for cell in cells:
        then = done.get(cell.config_hash, {}).get("data_sha256")
        if then is None or not cell.has("dataset.name"):
            continue
        own, folder = cell.setting("dataset.file"), out_dir / cell.folder
        name = cell.setting("dataset.source") or cell.setting("dataset.name")
        path = Path(own) if own else file_of(data_dir, str(name))
        if path in reported or not (own or path.is_file()):
            continue
        by_seed = own or cell.setting("dataset.limit_train") or cell.setting("dataset.limit_test")
        key = (cell.data_name, cell.seed if by_seed else None)
        if key not in drawn:
            dataset = hydra.utils.instantiate(cell.config["dataset"], _convert_="all")
            seed = seeding.derive(cell.seed, "trial", 0)
            drawn[key] = str(dataset.draw(data_dir, seed).sha256)
        if drawn[key] == then:
            continue
        hashes = f"data_sha256 is {drawn[key][:DIGITS_SHOWN]} now, {then[:DIGITS_SHOWN]} then"
        if is_done(folder):
            remedy = f"dataset.name={name}_2" if own else "give the changed file another name"
            raise InputError(
                f"{path} has other {'columns' if own else 'images'} or test labels than when "
                f"{folder} was made: {hashes} ({remedy}, or delete the runs of the old file)"
            )
        reported.add(path)
        say(
            f"{path} has other images or test labels, or another order, than when the stored "
            f"results were made: {hashes} (data_dir= names another folder; rerun=true trains on "
            "this file)"
        )
