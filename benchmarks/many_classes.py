"""Time and memory of learning from releases of many classes, by a network.

    python -m benchmarks.many_classes [classes=1000,10000,100000] [rows=8192] [out=FOLDER]

`LabelDPClassifier("mlp")`, marginal likelihood, one epoch: 32 numbers a row, a hidden layer of 64,
batches of 256. Each row of the result is a process of its own, as the system counts peak memory by
process (some 450 MB of it are torch). Seconds are those of the epoch on one thread; what an N x K
array of likelihoods would take stands beside the peak. Labels are made up, so no accuracy is told.
Writes many_classes_cpu.csv.
"""

import sys
from collections.abc import Iterator

from benchmarks.harness import Row, benchmark, integers, run_apart
from labeldp_bench.cli.script import integer

MECHANISMS = ("rr", "hadamard", "local_hashing", "subset_selection")
MEASURED = """
import resource, sys, time
import numpy as np
from labeldp import LabelDPClassifier, privatize
mechanism, classes, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
stream = np.random.default_rng(0)
features = stream.normal(size=(rows, 32))
labels = stream.integers(0, classes, rows)
release = privatize(labels, classes=range(classes), eps=1.0, mechanism=mechanism, seed=0)
model = LabelDPClassifier("mlp", epochs=1)
started = time.perf_counter()
model.fit(features, release)
learnt = time.perf_counter() - started
started = time.perf_counter()
model.predict(features)
told = time.perf_counter() - started
print(learnt, told, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@benchmark("many_classes", __doc__, classes="1000,10000,100000", rows="8192")
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields a row for each mechanism and number of classes."""
    several = integers(options, "classes", low=2, high=10**6)
    rows = integer("rows", options["rows"], low=2)
    for mechanism in MECHANISMS:
        for classes in several:
            learnt, told, peak = run_apart(MEASURED, mechanism, classes, rows)[-3:]
            yield {
                "mechanism": mechanism,
                "num_classes": classes,
                "rows": rows,
                "fit_seconds": round(float(learnt), 4),
                "predict_seconds": round(float(told), 4),
                "peak_bytes": int(peak) * 1024,
                "bytes_of_all_likelihoods": 4 * rows * classes,
            }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
