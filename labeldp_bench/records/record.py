"""The record of a run, written last and atomically, and how tables read it."""

import csv
import hashlib
import io
import json
import math
import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.support.files import write_text
from labeldp.support.validate import InputError
from labeldp_bench.experiments.cell import NO_GUARANTEE, Cell
from labeldp_bench.experiments.identity import without_paths
from labeldp_bench.support.checkout import CHECKOUT

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

CHECKPOINT = "checkpoint.pt"
"""The file of a run that is not done yet."""
WHERE_DAMAGED = "bring back an older version, by `git checkout` if it is committed, or delete it"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever damaged content raises inside into one line that names the file.

    Raises:
        InputError: the content is not what was written.
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path} is damaged: {reason} ({WHERE_DAMAGED})") from None


def read_rows(
    path: Path, filled: Sequence[str], numbers: Sequence[str] = (),
    text: Sequence[str] = ("config_hash",),
) -> "pd.DataFrame":  # fmt: skip
    """Returns the table in a CSV.

    Args:
        path: of the file, which is there.
        filled: columns that must be there, with a value in each row.
        numbers: columns that must be there, and hold numbers, where they hold anything.
        text: columns that stay as they are written.

    Raises:
        InputError: a column or a value is missing, or the file ends in the middle of a line.
    """
    import pandas as pd  # half a second, which most commands need not wait for

    with reading(path):
        table = pd.read_csv(path, dtype=dict.fromkeys(text, str))
        missing = [name for name in (*filled, *numbers) if name not in table.columns]
        if missing:
            raise ValueError(f"it has no column {missing[0]}")
        for name in filled:
            empty = table.index[table[name].isna()]
            if len(empty):
                raise ValueError(f"row {empty[0] + 1} has no {name}, as if it were cut off")
        for name in numbers:
            pd.to_numeric(table[name])
    return table


def merge_rows(
    path: Path, new: "pd.DataFrame", kept: Collection[str], order: Sequence[str]
) -> None:
    """Writes rows to a CSV, each in place of an older one of its cell.

    Older ones stay where their config_hash is in `kept`; those of retired records go. Where there
    are none at all, no file is made.

    Args:
        path: of the file.
        new: with a column `config_hash`.
        kept: the config_hash of each record that there is.
        order: columns that rows are sorted by; the last two name a row.
    """
    import pandas as pd

    if path.is_file():
        old = read_rows(path, ["config_hash"])
        old = old[old.config_hash.isin(list(kept))]
        new = pd.concat([new, old]) if len(new) else old
    elif new.empty:
        return
    rows = new.drop_duplicates(list(order[-2:]), keep="first").sort_values(list(order))
    write_text(path, rows.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


SCHEMA_VERSION = 1
Record = dict[str, Any]
"""What `record.json` holds."""
Records = dict[str, Record]
"""{config_hash: record}."""
FIELDS = {
    "dataset": "column key filled",
    "mechanism": "column key filled",
    "model": "column merged",
    "learner": "column merged",
    "loss": "column merged",
    "eps": "column key number",
    "seed": "column key number",
    "budget": "column merged",
    "accuracy": "column key number replayed",
    "best_epoch_accuracy": "column replayed",
    "accuracy_sem": "column replayed",
    "bayes_accuracy": "column replayed",
    "per_class_mean": "column replayed",
    "eps_spent": "column key number replayed",
    "delta": "column merged",
    "trust": "column merged",
    "private": "column merged",
    "released_agreement": "column replayed",
    "response_accuracy": "column replayed",
    "selection": "column",
    "pretrain": "column",
    "precision": "column",
    "epochs": "column",
    "trials": "column",
    "n_train": "column merged",
    "n_test": "column merged",
    "data_sha256": "column",
    "wall_seconds": "column merged",
    "images_per_second": "column",
    "device": "column merged",
    "torch_version": "column",
    "git_commit": "column merged",
    "schema_version": "column",
    "draws": "column key filled number",
    "distribution": "column key filled number",
    "task": "column merged",
    "excess_risk": "column replayed",
    "excess_risk_sem": "column replayed",
    "bias": "column replayed",
    "variance": "column replayed",
    "test_mse": "column replayed",
    "test_mse_sem": "column replayed",
    "auc": "column replayed",
    "average_precision": "column replayed",
    "normalised_log_likelihood": "column replayed",
    "calibration_error": "column replayed",
    "information_bits": "column",
    "config_hash": "column key filled",
    "identity": "column key filled",
    "config": "merged",
}
"""{field of a record that others read: what for}, in the order of the columns.

column: results/records.csv has it; filled: with a value in each row; number: with numbers alone;
key: a file without it is not a record; merged: a record without it stays out of the tables;
replayed: a run that is repeated has to give the same number.
"""


def fields_of(use: str) -> tuple[str, ...]:
    """Returns the fields with a use, see `FIELDS`."""
    return tuple(name for name, uses in FIELDS.items() if use in uses.split())


KEYS = {*fields_of("key")}

CHECKSUM = "checksum"
"""The key under which a record keeps the checksum of all others."""


def new_record(
    cell: Cell,
    *,
    dataset: str,
    task: str,
    eps: float,
    draws: int,
    distribution: int,
    **measured: Any,
) -> Record:
    """Returns a record: what the cell is, what was measured, and what it ran on."""
    import torch

    identity = cell.identity
    return {
        "schema_version": SCHEMA_VERSION,
        "draws": draws,
        "distribution": distribution,
        "noise": cell.noise,  # anyone with the seed can remove seeded noise
        "task": task,
        "dataset": dataset,
        "mechanism": identity["mechanism"],
        "model": identity["model"],
        "learner": identity["learner"],
        "loss": identity.get("learner.loss"),
        "eps": eps,
        "seed": cell.seed,
        "budget": cell.budget,
        **measured,
        "pretrain": identity.get("pretrain", "none"),
        "torch_version": torch.__version__,
        "git_commit": git_commit(),
        "config": without_paths(cell.config),
        "identity": identity,
        "config_hash": cell.config_hash,
    }


def is_heuristic(record: Record) -> bool:
    """Returns whether a record's scheme claims to protect labels, and guarantees nothing.

    Neither the baseline without privacy is one, nor a private mechanism at eps=inf.
    """
    if record["private"] or record["mechanism"] == "none":
        return False
    return record["trust"] == "none" or math.isfinite(float(record["eps"]))


def guarantee(record: Record) -> str:
    """Returns what a record's scheme guarantees, in words for a table: `eps=1`, `none`, ..."""
    if is_heuristic(record):
        return NO_GUARANTEE
    return f"eps={float(record['eps']):g}" if record["private"] else "none"


def write_record(folder: Path, record: Record) -> None:
    """Writes `record.json` in one step and removes the `error.txt` of an earlier try."""
    safe = json_safe({key: value for key, value in record.items() if key != CHECKSUM})
    safe[CHECKSUM] = checksum(safe)
    text = json.dumps(safe, indent=1, allow_nan=False)
    write_text(folder / "record.json", text + "\n")  # the folder's lock keeps other writers away
    (folder / "error.txt").unlink(missing_ok=True)


def checksum(record: Record) -> str:
    """Returns 16 hex digits of the SHA-256 of all that a record says but its checksum.

    It finds an accidental edit; anyone who wants to can compute it again.

    >>> checksum({"eps": 1.0, "seed": 0}) == checksum({"seed": 0, "eps": 1.0, "checksum": "x"})
    True
    """
    rest = json.loads(json.dumps({key: record[key] for key in record if key != CHECKSUM}))
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_confusion(folder: Path, confusion: "Tensor") -> None:
    """Writes `confusion.csv` (counts, row = true class) and `per_class.csv` of a run.

    The interval of a class is Clopper and Pearson's at 95 %: it covers the sampling of the test
    set only, not the spread over seeds.

    Args:
        folder: of the run.
        confusion: counts, float64 (K, K); a mean over epochs is rounded for the interval.
    """
    from labeldp.estimates import exact_interval  # which imports torch

    rows: list[list[object]] = [["true_class", *range(len(confusion))]]
    rows += [[number, *counts] for number, counts in enumerate(confusion.tolist())]
    _write_csv(folder / "confusion.csv", rows)
    rows = [["class", "correct", "total", "accuracy", "low", "high"]]
    for number, counts in enumerate(confusion):
        correct, total = float(counts[number]), float(counts.sum())
        if not total:
            continue
        interval = exact_interval(round(correct), round(total))
        rows.append([number, correct, total, correct / total, *interval])
    _write_csv(folder / "per_class.csv", rows)


def _write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO()  # pandas would take half a second to import
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(path, text.getvalue())


def is_done(folder: Path) -> bool:
    """Returns whether the run in `folder` has its record."""
    return (folder / "record.json").is_file()


def read_record(folder: Path) -> Record:
    """Returns the record of a finished run; infinities are floats again.

    Raises:
        InputError: the file is damaged, or a newer version wrote it, or it was edited: its checksum
            is of another text. Records of older versions have none.
    """
    path = folder / "record.json"
    try:
        record = json.loads(path.read_text())
        if not isinstance(record, dict) or not record.keys() >= KEYS:
            raise ValueError(f"it lacks some of the keys {', '.join(sorted(KEYS))}")
        version = record.get("schema_version", SCHEMA_VERSION)
        if version > SCHEMA_VERSION:
            raise InputError(
                f"{path} has schema version {version}, and this program reads up to "
                f"{SCHEMA_VERSION} (install the newer labeldp-bench that wrote it, or name another "
                "out_dir)"
            )
        written = record.pop(CHECKSUM, None)
        if written is not None and written != (now := checksum(record)):
            raise InputError(
                f"{path} was changed after its run: its checksum is {written}, and what it says "
                f"has {now} (undo the change, or delete the file and run again)"
            )
        for key in ("eps", "eps_spent"):
            record[key] = float(record[key])
        for key in ("draws", "distribution"):
            record[key] = int(record[key])
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged: {error} (delete it and run again)") from None
    return record


def json_safe(value: object) -> Any:
    """Returns `value` with infinities as the text "inf"; NaN is refused by the writer."""
    if isinstance(value, dict):
        return {key: json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


@cache
def git_commit() -> str | None:
    """Returns the checkout's commit, with "-dirty" if tracked files differ.

    The environment variable LABELDP_COMMIT goes first: a copy of a checkout may have other files
    than its `.git` says. Outside of a checkout without it: None.
    """
    if named := os.environ.get("LABELDP_COMMIT"):
        return named
    if not (CHECKOUT / ".git").exists():
        return None
    # Where git itself starts us, as in a hook, GIT_DIR and others name the repository it works on.
    own = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        described = subprocess.run(
            ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True, text=True, check=True, timeout=10, env=own,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None
