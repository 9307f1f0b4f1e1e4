"""Records: one JSON file per run, written last and atomically; its presence means done."""

import json
import math
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

from labeldp_bench.config import CHECKOUT, Cell

SCHEMA_VERSION = 1


def new_record(cell: Cell, **measured: Any) -> dict[str, Any]:
    """Returns a record: what the cell is, what was measured, and what it ran on."""
    identity = cell.identity
    return {
        "schema_version": SCHEMA_VERSION,
        "task": "classification",
        "dataset": measured.pop("dataset"),
        "mechanism": identity["mechanism"],
        "model": identity["model"],
        "learner": identity["learner"],
        "loss": identity.get("learner.loss"),
        "eps": measured.pop("eps"),
        "seed": cell.seed,
        "budget": cell.config.get("budget"),
        **measured,
        "pretrain": "none",
        "torch_version": torch.__version__,
        "git_commit": git_commit(),
        "config": cell.config,
        "identity": identity,
        "config_hash": cell.config_hash,
    }


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Writes `record.json` in one step and takes away the `error.txt` of an earlier try."""
    text = json.dumps(json_safe(record), indent=1, allow_nan=False)
    temporary = folder / f".record-{os.getpid()}.json"
    temporary.write_text(text + "\n")
    os.replace(temporary, folder / "record.json")
    (folder / "error.txt").unlink(missing_ok=True)


def is_done(folder: Path) -> bool:
    """Returns whether the run in `folder` has its record."""
    return (folder / "record.json").is_file()


def read_record(folder: Path) -> dict[str, Any]:
    """Returns the record of a finished run; infinities are floats again."""
    record = json.loads((folder / "record.json").read_text())
    for key in ("eps", "eps_spent"):
        record[key] = float(record[key])
    return record


def json_safe(value: Any) -> Any:
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
    """Returns the checkout's commit, with "-dirty" if tracked files differ; None outside one."""
    if not (CHECKOUT / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None
