"""Time and memory of learning from releases of many classes, by a network.

    python -m benchmarks.many_classes [classes=1000,10000,100000] [rows=8192] [out=FOLDER]

`LabelDPClassifier("mlp")`, marginal likelihood, one epoch: 32 numbers a row, a hidden layer of 64,
batches of 256. Each row of the result is a process of its own, as the system counts peak memory by
process (ru_maxrss; some 450 MB of it are torch). `seconds` are those of the epoch on one thread,
per 10^6 rows; what an N x K array of likelihoods would take stands beside the peak. Labels are made
up, so no accuracy is told. Prints a Markdown table and writes many_classes_cpu.csv.
"""

import os
import subprocess
import sys
from typing import Any

import torch

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

MECHANISMS = ("rr", "hadamard", "local_hashing", "subset_selection")
NUMBERS = 32
MEASURED = """
import resource, sys, time
import numpy as np
from labeldp import LabelDPClassifier, privatize
mechanism, classes, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
stream = np.random.default_rng(0)
features = stream.normal(size=(rows, int(sys.argv[4])))
labels = stream.integers(0, classes, rows)
release = privatize(labels, classes=range(classes), eps=1.0, mechanism=mechanism, seed=0)
model = LabelDPClassifier("mlp", epochs=1)
started = time.perf_counter()
model.fit(features, release)
learnt = time.perf_counter() - started
started = time.perf_counter()
model.predict(features)
told = time.perf_counter() - started
print("used", learnt, told, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measure(mechanism: str, classes: int, rows: int) -> dict[str, Any]:
    """Returns one row of the result."""
    line = [sys.executable, "-c", MEASURED, mechanism, str(classes), str(rows), str(NUMBERS)]
    done = subprocess.run(line, capture_output=True, text=True, check=True,
                          env=os.environ | {"OMP_NUM_THREADS": "1"})  # fmt: skip
    learnt, told, peak = done.stdout.split()[-3:]
    return {
        "mechanism": mechanism, "num_classes": classes, "rows": rows,
        "fit_seconds": round(float(learnt), 4), "predict_seconds": round(float(told), 4),
        "peak_bytes": int(peak) * 1024, "bytes_of_all_likelihoods": 4 * rows * classes,
    }  # fmt: skip


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, {
        "classes": "1000,10000,100000", "rows": "8192", "out": str(BENCHMARKS),
    })  # fmt: skip
    texts = some("classes", own["classes"])
    several = [integer("classes", text, low=2, high=10**6) for text in texts]
    count = integer("rows", own["rows"], low=2)
    out = output_folder("out", own["out"])
    print_head(("mechanism", "K", "rows", "s an epoch", "s to predict", "peak MB", "N x K, MB"))
    rows = []
    for mechanism in MECHANISMS:
        for classes in several:
            row = measure(mechanism, classes, count)
            rows.append(row)
            print_row(
                [
                    mechanism,
                    classes,
                    count,
                    row["fit_seconds"],
                    row["predict_seconds"],
                    *(round(row[key] / 1e6) for key in ("peak_bytes", "bytes_of_all_likelihoods")),
                ]
            )
    write_benchmark("many_classes", rows, torch.device("cpu"), out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
