"""Merges the records of runs into results/records.csv and its companions."""

import csv
import itertools
import json
import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omegaconf import OmegaConf

from labeldp.support.files import write_text
from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import NO_GUARANTEE, Cell
from labeldp_bench.experiments.identity import canonical
from labeldp_bench.records.record import (
    Record,
    Records,
    fields_of,
    guarantee,
    is_done,
    merge_rows,
    read_record,
    read_rows,
    reading,
)
from labeldp_bench.records.validation import problems_of
from labeldp_bench.support.checkout import CHECKOUT, CONFIGS

if TYPE_CHECKING:
    import pandas as pd

COMMITTED = CHECKOUT / "results" / "records.csv"
PER_CLASS = CHECKOUT / "results" / "per_class.csv"

COLUMNS = fields_of("column")
DIAGNOSES = "enhancement.csv"
TUNED = "tuned.csv"
TUNED_NOTE = re.compile(r"tuned(?:_stage_(\d+))?")
"""The name of a note in a record that says what a stage of a tuned run was trained with."""
ORDER = ["dataset", "model", "mechanism", "loss", "eps", "seed", "identity"]
CLASS_COLUMNS = (
    "config_hash", "dataset", "model", "mechanism", "loss", "eps", "guarantee", "seed", "class",
    "accuracy",
)  # fmt: skip


def read_committed(path: Path = COMMITTED) -> Records:
    """Returns {config_hash: record} of a records table; empty if there is none.

    A record of PLE has its diagnosis as `enhancement`, a tuned one what was chosen as `tuned`, both
    from files next to the table.

    Raises:
        InputError: the file is damaged.
    """
    if not path.is_file():
        return {}
    table = read_rows(path, fields_of("filled"), fields_of("number"))
    # Column by column: asking each cell whether it is missing takes five times as long.
    columns = {
        str(name): [
            None if gone else value
            for value, gone in zip(column.tolist(), column.isna(), strict=True)
        ]
        for name, column in table.items()
    }
    records = {}
    with reading(path):
        for row in zip(*columns.values(), strict=True):
            record = dict(zip(columns, row, strict=True))
            record["identity"] = _identity(str(record["identity"]))
            records[str(record["config_hash"])] = record
    for name, diagnosis in read_diagnoses(path.with_name(DIAGNOSES)).items():
        if name in records:
            records[name]["enhancement"] = diagnosis
    for name, chosen in read_choices(path.with_name(TUNED)).items():
        if name in records:
            records[name]["tuned"] = chosen
    return records


def read_lengths(models: Collection[str], path: Path = COMMITTED) -> Records:
    """Returns {config_hash: what tells how long a cell takes} of some models' committed records.

    Reading whole records of all models would take two seconds.
    """
    if not path.is_file():
        return {}
    names = [f",{model}," for model in models]
    with reading(path), path.open(newline="") as file:
        head = next(file)
        lines = (line for line in file if any(name in line for name in names))
        return {
            row["config_hash"]: {
                "identity": _identity(row["identity"]),
                "device": row["device"],
                "wall_seconds": float(row["wall_seconds"] or 0),
            }
            for row in csv.DictReader(itertools.chain([head], lines))
        }


def read_with_classes() -> Records:
    """Returns {config_hash: record}, with `per_class_accuracy` where there are such rows.

    Raises:
        InputError: the table is not there, or has no row: every page would be empty.
    """
    if not (records := read_committed()):
        raise InputError(
            f"there is no record in {COMMITTED} (bring it back by `git checkout`, or run "
            "`python scripts/collect.py` where you have runs)"
        )
    if PER_CLASS.is_file():
        rows = read_rows(PER_CLASS, ["config_hash"], ["class", "accuracy"]).sort_values("class")
        for name, accuracy in zip(rows.config_hash, rows.accuracy.tolist(), strict=True):
            if name in records:
                records[name].setdefault("per_class_accuracy", []).append(accuracy)
    return records


def find_done(cells: list[Cell], out_dir: Path, *, committed: bool) -> Records:
    """Returns {config_hash: record} of the cells that are done.

    Args:
        cells: what is asked for.
        out_dir: where runs keep their records.
        committed: whether `results/records.csv` counts too (it does for experiments).
    """
    table = read_committed() if committed else {}
    done = {}
    for cell in cells:
        folder = out_dir / cell.folder
        if is_done(folder):
            done[cell.config_hash] = _read_own(cell, out_dir)
        elif cell.config_hash in table:
            done[cell.config_hash] = table[cell.config_hash]
    return done


def _read_own(cell: Cell, out_dir: Path) -> Record:
    """Returns the record of a cell that is done.

    Raises:
        InputError: it is damaged, or of another run, such as a folder that was renamed.
    """
    folder = out_dir / cell.folder
    record = read_record(folder)
    if record["config_hash"] != cell.config_hash:
        raise InputError(
            f"{folder / 'record.json'} is of another run: its config_hash is "
            f"{record['config_hash']}, this run's is {cell.config_hash} (was the folder copied? "
            "move it back, or delete it and run again)"
        )
    return record


def collect(out_dir: Path, records_csv: Path = COMMITTED, per_class_csv: Path = PER_CLASS) -> int:
    """Merges every record under `out_dir` into the tables; returns how many there were.

    A record replaces the row of the same identity. Circle runs have no per-class rows.

    Raises:
        InputError: a record or a table is damaged, a record contradicts itself, or two
            records are of one run and differ; nothing is written then.
    """
    found = _read_all(out_dir)
    old = None
    if per_class_csv.is_file():
        old = read_rows(per_class_csv, ("config_hash", "eps", "class"), text=("config_hash", "eps"))
    kept = read_committed(records_csv) | {record["config_hash"]: record for record in found}
    classes = [
        (record["config_hash"], record["dataset"], record["model"], record["mechanism"],
         record["loss"], _text(record["eps"]), guarantee(record), record["seed"], number, accuracy)
        for record in found
        if record.get("bayes_accuracy") is None
        for number, accuracy in enumerate(record.get("per_class_accuracy") or ())
    ]  # fmt: skip
    import pandas as pd

    new = pd.DataFrame(classes, columns=list(CLASS_COLUMNS)).astype({"accuracy": float})
    if old is not None:
        old = old[old.config_hash.isin(kept) & ~old.config_hash.isin(new.config_hash)]
        new = pd.concat([new, old])
    classes_of = new.groupby("config_hash").size()
    rows = [
        _row(record) | {"information_bits": information_bits(record, classes_of.get(name))}
        for name, record in kept.items()
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    _write(table.sort_values(ORDER, key=_sort_key), records_csv)
    merge_diagnoses(found, records_csv.with_name(DIAGNOSES), kept)
    merge_choices(found, records_csv.with_name(TUNED), kept)
    order = ["dataset", "model", "mechanism", "loss", "eps", "seed", "config_hash", "class"]
    _write(new.sort_values(order, key=_sort_key), per_class_csv)
    return len(found)


def information_bits(record: Record, num_classes: int | None = None) -> float | None:
    """Returns the bits that each release of a run tells of its label, under a uniform prior.

    Without privacy log2 K. None where it is not known: of a central run and of a heuristic, of a
    regression, where a model gave the releases a prior, which no record keeps, and where several
    rows share one budget.

    Args:
        record: of a run.
        num_classes: K, where neither its identity nor its data set's YAML says it.
    """
    from labeldp.information import information  # torch: other commands read records without it
    from labeldp.named_mechanisms import CLASS_MECHANISMS, class_mechanism

    identity = record["identity"]
    name, eps = str(record["mechanism"]), float(record["eps"])
    if record["task"] != "classification" or name not in CLASS_MECHANISMS:
        return None
    if identity.get("dataset.rows_per_unit", 1) != 1:
        return None
    classes = identity.get("dataset.num_classes") or num_classes or _classes_of(identity["dataset"])
    if classes is None:
        return None
    settings = {
        key.removeprefix("mechanism."): value
        for key, value in identity.items()
        if key.startswith("mechanism.") and key != "mechanism.eps"
    }
    return information(class_mechanism(name, eps, settings), int(classes)).bits


def _classes_of(dataset: str) -> int | None:
    """Returns the number of classes that a data set's YAML states; None where it states none."""
    path = CONFIGS / "dataset" / f"{dataset}.yaml"
    classes = OmegaConf.select(OmegaConf.load(path), "num_classes") if path.is_file() else None
    return None if classes is None else int(classes)


def _read_all(out_dir: Path) -> list[Record]:
    """Returns each run's record under a folder; a run that was copied with it counts once."""
    read: dict[str, tuple[Path, Record]] = {}
    for path in sorted(out_dir.rglob("record.json")):
        record = read_record(path.parent)
        if problems := problems_of(record):
            raise InputError(f"{path}: {problems[0]} (delete it and run again)")
        other, known = read.setdefault(record["config_hash"], (path, record))
        if known != record:  # which of the two is meant nobody can tell
            raise InputError(f"{other} and {path} are of one run, and differ (delete one of them)")
    return [record for _, record in read.values()]


def _identity(text: str) -> dict[str, Any]:
    identity = json.loads(text)
    if not isinstance(identity, dict):
        raise ValueError(f"an identity is {identity!r}")
    return identity


def _row(record: Record) -> dict[str, Any]:
    row = {column: record.get(column) for column in COLUMNS}
    for key in ("eps", "eps_spent"):
        row[key] = _text(row[key])
    row["identity"] = canonical(record["identity"])
    return row


def _sort_key(column: "pd.Series") -> "pd.Series":
    return column.astype(float) if column.name == "eps" else column


def _text(number: Any) -> str:
    return f"{float(number):.15g}"


def _write(table: "pd.DataFrame", path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


class Chosen(NamedTuple):
    """What one stage of a tuned run was trained with.

    Attributes:
        lr: the learning rate.
        average: keep of the running mean of the weights; None: the last weights.
        epochs: how many.
    """

    lr: float
    average: float | None
    epochs: int


def merge_choices(records: list[Record], path: Path, kept: Collection[str]) -> None:
    """Merges what tuned runs among `records` chose into a CSV; see `merge_rows`."""
    of_run = ["config_hash", "dataset", "mechanism", "loss", "eps", "seed"]
    of_stage = ["lr", "average", "epochs", "held_out_log_likelihood", "judges"]
    rows = [
        {key: record[key] for key in of_run}
        | {"eps": float(record["eps"]), "stage": int(match[1] or 1)}
        | {key: choice.get(key, math.nan) for key in of_stage}
        for record in records
        for note, choice in (record.get("notes") or {}).items()
        if (match := TUNED_NOTE.fullmatch(note))
    ]
    order = ["dataset", "mechanism", "loss", "eps", "seed", "config_hash", "stage"]
    import pandas as pd

    merge_rows(path, pd.DataFrame(rows, columns=[*of_run, "stage", *of_stage]), kept, order)


def read_choices(path: Path) -> dict[str, list[Chosen]]:
    """Returns {config_hash: the choice of each stage}; empty without a file.

    Raises:
        InputError: the file is damaged.
    """
    if not path.is_file():
        return {}
    found: dict[str, list[Chosen]] = {}
    numbers = ["stage", "lr", "average", "epochs"]
    rows = read_rows(path, ["config_hash", "stage", "lr", "epochs"], numbers)
    with reading(path):
        for row in rows.sort_values(["config_hash", "stage"]).itertuples():
            average = None if math.isnan(row.average) else float(row.average)
            chosen = Chosen(float(row.lr), average, int(row.epochs))
            found.setdefault(str(row.config_hash), []).append(chosen)
    return found


def merge_diagnoses(records: list[Record], path: Path, kept: Collection[str]) -> None:
    """Merges what PLE's runs among `records` gave away into a CSV; see `merge_rows`."""
    of_run = ["config_hash", "dataset", "loss", "seed"]
    rows = [
        {key: record[key] for key in of_run}
        | {"guarantee": NO_GUARANTEE, "measure": measure}
        | {"values": json.dumps(values, separators=(",", ":"))}
        for record in records
        for measure, values in (record.get("notes") or {}).get("enhancement", {}).items()
    ]
    columns = [*of_run, "guarantee", "measure", "values"]
    order = ["dataset", "loss", "seed", "config_hash", "measure"]
    import pandas as pd

    merge_rows(path, pd.DataFrame(rows, columns=columns), kept, order)


def read_diagnoses(path: Path) -> dict[str, dict[str, Any]]:
    """Returns {config_hash: as `learners.ple.diagnosis` returns it}; empty without a file.

    Raises:
        InputError: the file is damaged.
    """
    if not path.is_file():
        return {}
    found: dict[str, dict[str, Any]] = {}
    rows = read_rows(path, ["config_hash", "measure", "values"])
    with reading(path):
        for name, measure, values in rows[["config_hash", "measure", "values"]].to_numpy():
            found.setdefault(str(name), {})[str(measure)] = json.loads(str(values))
    return found
