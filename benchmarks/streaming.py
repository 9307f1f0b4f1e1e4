"""Time and peak memory of `labeldp release` on a file of many rows, Parquet and CSV.

    python -m benchmarks.streaming [rows=1000000,10000000] [classes=10] [out=FOLDER]

Each row is a release in a process of its own, by the mechanism that `labeldp plan` recommends at
eps=1, with secret noise. The file has two columns: a number and the label. CPU seconds tell the
work where the machine is busy. Peak memory is the system's own count of that process (ru_maxrss);
most of it is torch. Prints a Markdown table and writes streaming_cpu.csv.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow import csv

from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp_bench.cli.script import (
    command,
    integer,
    output_folder,
    print_head,
    print_row,
    read_arguments,
    some,
)

PART = 1_000_000
"""Rows that are made up at one time."""
MEASURED = """
import resource, sys
from labeldp.cli.__main__ import main
status = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print("used", used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(status)
"""


def made_up(rows: int, classes: int) -> Iterator[pa.Table]:
    """Yields a table of rows in parts: a feature, and a label."""
    stream = np.random.default_rng(0)
    names = np.array([f"class{number}" for number in range(classes)])
    for start in range(0, rows, PART):
        size = min(PART, rows - start)
        labels = names[stream.integers(0, classes, size)]
        yield pa.table({"age": stream.integers(18, 90, size), "answer": labels})


def write(path: Path, rows: int, classes: int) -> None:
    """Writes the made-up file."""
    parts = made_up(rows, classes)
    first = next(parts)
    with (pq.ParquetWriter(path, first.schema) if path.suffix == ".parquet"
          else csv.CSVWriter(path, first.schema)) as writer:  # fmt: skip
        writer.write_table(first)
        for part in parts:
            writer.write_table(part)


def measure(source: Path, rows: int, classes: int, folder: Path) -> dict[str, Any]:
    """Returns one row of the result."""
    out = folder / "release.parquet"
    names = ",".join(f"class{number}" for number in range(classes))
    line = [sys.executable, "-c", MEASURED, "release", str(source), "--label", "answer",
            "--classes", names, "--eps", "1", "--out", str(out)]  # fmt: skip
    started = time.perf_counter()
    done = subprocess.run(line, capture_output=True, text=True, check=True,
                          env=os.environ | {"OMP_NUM_THREADS": "1"})  # fmt: skip
    seconds = time.perf_counter() - started
    cpu, peak = done.stdout.split()[-2:]
    row = {
        "file": source.suffix[1:], "rows": rows, "num_classes": classes,
        "file_bytes": source.stat().st_size, "seconds": round(seconds, 2),
        "cpu_seconds": round(float(cpu), 2), "peak_bytes": int(peak) * 1024,
        "release_bytes": out.stat().st_size,
        "released_by": done.stdout.split()[4].strip(","),
    }  # fmt: skip
    out.unlink()
    return row


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, {
        "rows": "1000000,10000000", "classes": "10", "out": str(BENCHMARKS),
    })  # fmt: skip
    several = [integer("rows", text, low=1) for text in some("rows", own["rows"])]
    classes = integer("classes", own["classes"], low=2, high=1000)
    out = output_folder("out", own["out"])
    print_head(("file", "rows", "s", "CPU s", "peak MB", "file MB", "release MB", "by"))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("parquet", "csv"):
            for size in several:
                source = folder / f"people.{kind}"
                write(source, size, classes)
                row = measure(source, size, classes, folder)
                rows.append(row)
                megabytes = [round(row[key] / 1e6) for key in ("peak_bytes", "file_bytes",
                                                               "release_bytes")]  # fmt: skip
                print_row(
                    [kind, size, row["seconds"], row["cpu_seconds"], *megabytes, row["released_by"]]
                )
                source.unlink()
    write_benchmark("streaming", rows, torch.device("cpu"), out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
