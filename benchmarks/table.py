"""What every benchmark leaves: a Markdown table, and one CSV per device with its provenance."""

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from labeldp.support.files import replacing
from labeldp_bench.records.record import git_commit
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.device import describe_device

BENCHMARKS = CHECKOUT / "results" / "benchmarks"


def write_benchmark(
    name: str, rows: Sequence[Mapping[str, Any]], device: torch.device, folder: Path
) -> None:
    """Writes what was measured to `<name>_<device>.csv` in `folder`; prints where and on what.

    Args:
        name: what was measured, such as `training`.
        rows: at least one; all have the columns of the first. Threads, device, versions and the
            commit are added to each.
        device: where it was measured.
        folder: made if need be.
    """
    provenance = {
        "threads": torch.get_num_threads(),
        "device": describe_device(device),
        "torch_version": torch.__version__,
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "git_commit": git_commit(),
    }
    slug = re.sub(r"\W+", "_", str(provenance["device"]).split(" (")[0]).strip("_").lower()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}_{slug}.csv"
    with replacing(path) as partial, partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], *provenance], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, **provenance} for row in rows)
    print(f"\n{provenance['device']}, torch {torch.__version__}: {path}")
