"""Compares the data at hand with those that finished results were made on."""

from collections.abc import Iterable
from pathlib import Path

import hydra

from labeldp.support import seeding
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.data.images import file_of, hash_of_images, hash_with_training_labels, read_npz
from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.records.record import Records, is_done

SHOWN = 16
"""Digits of a hash that a message shows."""


def refuse_changed_data(cells: list[Cell], done: Records, out_dir: Path, data_dir: Path) -> None:
    """Raises if finished results were made on other data than the files hold now.

    Records under `out_dir` are compared with what their runs used. Training labels count in no
    hash of theirs, so that a record tells nothing of them: if the file was written again since, a
    line says so. Stored results are compared with the official data, public labels and all. A file
    that is not there is compared with nothing; a line says so where results are stored ones.

    Args:
        cells: what is asked for.
        done: {config_hash: record} of those that are done.
        out_dir: where runs keep their records.
        data_dir: where the .npz files are.

    Raises:
        InputError: names the file, both hashes, and what to do.
    """
    found = [cell for cell in cells if cell.config_hash in done and _source(cell) is not None]
    own = {cell.config_hash for cell in found if is_done(out_dir / cell.folder)}
    by_hash: list[tuple[Cell, str]] = []
    absent: set[str] = set()
    public: set[str] = set()
    for cell in found:
        name, stored = str(_source(cell)), cell.config_hash not in own
        if not file_of(data_dir, name).is_file():
            absent |= {f"{name}.npz"} if stored else set()
        elif not stored:
            by_hash.append((cell, str(out_dir / cell.folder)))
        elif name in OFFICIAL and OFFICIAL[name].images_sha256 is not None:
            public.add(name)
        else:
            by_hash.append((cell, "the row of results/records.csv"))
    _compare_drawn(by_hash, done, data_dir)
    for name in sorted(public):
        _compare_public(name, file_of(data_dir, name))
    if absent:
        names = ", ".join(sorted(absent))
        say(f"stored results are not checked against the data: there is no {names} in {data_dir}")


def _source(cell: Cell) -> str | None:
    """Returns the name of the .npz file that a cell's data come from; None without one."""
    if not cell.has("dataset.name"):
        return None
    return str(cell.setting("dataset.source") or cell.setting("dataset.name"))


def _compare_drawn(found: Iterable[tuple[Cell, str]], done: Records, data_dir: Path) -> None:
    """Compares records with what their cells draw now; `found`: cells, and names of results."""
    drawn: dict[tuple[str, int | None], DataBundle] = {}
    told: set[Path] = set()
    for cell, result in found:
        path, record = file_of(data_dir, str(_source(cell))), done[cell.config_hash]
        if record.get("data_sha256") is None:
            continue
        limited = cell.setting("dataset.limit_train") or cell.setting("dataset.limit_test")
        key = (cell.data_name, cell.seed if limited else None)
        if key not in drawn:
            dataset = hydra.utils.instantiate(cell.config["dataset"], _convert_="all")
            drawn[key] = dataset.draw(data_dir, seeding.derive(cell.seed, "trial", 0))
        now, before = drawn[key], record["data_sha256"]
        if now.sha256 != before:
            raise InputError(
                f"{path.name} has other images or test labels than when {result} "
                f"was made: data_sha256 is {str(now.sha256)[:SHOWN]} now, {before[:SHOWN]} then "
                "(give the changed file another name, or delete the runs of the old one)"
            )
        written = record.get("data_written")
        if path not in told and written is not None and written != now.written:
            told.add(path)
            say(
                f"{path.name} was written again since {result} was made: images and "
                "test labels are the same; training labels, of which records keep nothing, may "
                "have changed (delete the old runs if so)"
            )


def _compare_public(name: str, path: Path) -> None:
    """Refuses a file that is not the public data set which stored results were made on."""
    train, test = read_npz(path)
    official = OFFICIAL[name]
    # A hash of the file's own training labels would give the last one away to who knows the others.
    labels, images = hash_with_training_labels(train), hash_of_images(train, test)
    what, hashes = "training labels", ""
    if images != official.images_sha256:
        what = "images or test labels"
        hashes = (
            f": its hash, without the order, is {images[:SHOWN]}, theirs "
            f"{str(official.images_sha256)[:SHOWN]}"
        )
    elif labels == official.labels_sha256:
        return
    raise InputError(
        f"{path} has other {what} than the {name} of the stored results{hashes} (data_dir= names "
        "another folder; rerun=true trains on this file)"
    )
