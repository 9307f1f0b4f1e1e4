"""Time and peak memory of `labeldp release` on a file of many rows, Parquet and CSV.

    python -m benchmarks.streaming [rows=1000000,10000000] [classes=10] [out=FOLDER]

Each row is a release in a process of its own, by the mechanism that `labeldp plan` recommends at
eps=1, with secret noise. The file has two columns: a number and the label. CPU seconds tell the
work where the machine is busy. Peak memory is the system's own count of that process (ru_maxrss);
most of it is torch. Writes streaming_cpu.csv.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from benchmarks.harness import Row, benchmark, integers, run_apart
from labeldp_bench.cli.script import integer

PART = 1_000_000
"""Rows that are made up at one time."""
MEASURED = """
import resource, sys
from labeldp.cli.__main__ import main
status = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(status)
"""


def made_up(rows: int, classes: list[str]) -> Iterator[pa.Table]:
    """Yields a table of rows in parts: a feature, and a label."""
    stream = np.random.default_rng(0)
    for start in range(0, rows, PART):
        size = min(PART, rows - start)
        labels = np.array(classes)[stream.integers(0, len(classes), size)]
        yield pa.table({"age": stream.integers(18, 90, size), "answer": labels})


def measured(source: Path, rows: int, classes: list[str]) -> Row:
    """Writes the made-up file and releases it; returns one row of the result."""
    out = source.with_name("release.parquet")
    schema = next(made_up(1, classes)).schema
    opened = pq.ParquetWriter if source.suffix == ".parquet" else csv.CSVWriter
    with opened(source, schema) as writer:
        for part in made_up(rows, classes):
            writer.write_table(part)
    given = ["--label", "answer", "--classes", ",".join(classes), "--eps", 1, "--out", out]
    started = time.perf_counter()
    said = run_apart(MEASURED, "release", source, *given)
    seconds = time.perf_counter() - started
    return {
        "file": source.suffix[1:],
        "rows": rows,
        "num_classes": len(classes),
        "file_bytes": source.stat().st_size,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(float(said[-2]), 2),
        "peak_bytes": int(said[-1]) * 1024,
        "release_bytes": out.stat().st_size,
        "released_by": said[said.index("by") + 1].strip(","),
    }


@benchmark("streaming", __doc__, rows="1000000,10000000", classes="10")
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields a row for each kind of file and number of rows."""
    several = integers(options, "rows", low=1)
    classes = integer("classes", options["classes"], low=2, high=1000)
    names = [f"class{number}" for number in range(classes)]
    for kind in ("parquet", "csv"):
        for rows in several:
            with tempfile.TemporaryDirectory() as folder:  # each with a ledger of its own
                yield measured(Path(folder) / f"people.{kind}", rows, names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
