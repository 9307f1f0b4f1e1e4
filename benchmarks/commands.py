"""Seconds and memory of the commands, each beside what a user would write without this package.

    python -m benchmarks.commands [rows=1000000] [fit_rows=100000] [out=FOLDER]

Each piece of work runs in a process of its own, on one thread, and right after it its baseline:
importing the library and a small release, beside `import torch`; `labeldp release` of `rows` labels
with text ids, and a second release of them, which is refused, beside pandas reading the file;
`labeldp fit` of `fit_rows` x 20 features in five classes, beside five folds of scikit-learn's
LogisticRegression on clean labels; `labeldp predict` and `evaluate` of another `fit_rows` rows,
beside scikit-learn's predictions, and its scores and curves on clean labels. CPU seconds, start of
Python included, of imports the least of five; peak memory is what Linux counts for
that process (VmHWM, as ru_maxrss begins at the parent's). Writes commands_cpu.csv.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.harness import Row, benchmark
from labeldp_bench.cli.script import integer

COUNTED = """
import re, sys, time
{program}
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())
print(time.process_time(), peak.group(1))
"""
COMMAND = """
from labeldp.cli.__main__ import main
status = main(sys.argv[2:])
if status != int(sys.argv[1]):
    sys.exit(f"exit status {status}")
"""
PRIVATIZE = "import labeldp as ldp; ldp.privatize(['no', 'yes'] * 500, ['no', 'yes'], 1.0)"
READ = "import pandas as pd; pd.read_csv(sys.argv[1])"
FOLDS = """
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
table = pd.read_csv(sys.argv[1])
cross_val_score(LogisticRegression(), table.drop(columns="answer"), table["answer"], cv=5)
"""
START = """
import numpy as np, pandas as pd
from sklearn.linear_model import LogisticRegression
names = [f"x{each}" for each in range(20)]
model = LogisticRegression()  # as if read from a file: its weights do not matter here
model.classes_, model.coef_, model.intercept_ = np.array(list("abcde")), np.eye(5, 20), np.zeros(5)
table = pd.read_csv(sys.argv[1])
found = model.predict_proba(table[names].to_numpy())
"""
PREDICTED = (
    START
    + """
out = pd.DataFrame(found, columns=list("abcde"))
out.insert(0, "row", table["id"])
out.insert(1, "predicted", model.classes_[found.argmax(1)])
out.to_csv(sys.argv[2], index=False, float_format="%.6g")
"""
)
SCORED = (
    START
    + """
from matplotlib import pyplot
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import RocCurveDisplay, accuracy_score, log_loss, roc_auc_score
print(accuracy_score(table["answer"], model.classes_[found.argmax(1)]))
print(log_loss(table["answer"], found), roc_auc_score(table["answer"], found, multi_class="ovr"))
_, axes = pyplot.subplots(1, 2)
for place, name in enumerate(model.classes_):
    for display, axis in zip([CalibrationDisplay, RocCurveDisplay], axes):
        display.from_predictions(table["answer"] == name, found[:, place], ax=axis)
pyplot.savefig(sys.argv[2])
"""
)
CLASSES = list("abcde")


def work(program: str, *arguments: object, times: int = 1) -> tuple[float, int]:
    """Returns the least CPU seconds and peak bytes of a program, run so many times.

    Each run is a process of its own with one thread: the system counts peak memory by process.
    """
    line = [sys.executable, "-c", COUNTED.format(program=program), *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    runs = []
    for _ in range(times):
        done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment)
        seconds, peak = done.stdout.split()[-2:]
        runs.append((float(seconds), int(peak)))
    least, peak_kib = min(runs)
    return round(least, 2), peak_kib * 1024


def row(name: str, ours: tuple[float, int], baseline: str, theirs: tuple[float, int]) -> Row:
    """Returns one row of the result."""
    return {
        "work": name,
        "cpu_seconds": ours[0],
        "peak_bytes": ours[1],
        "baseline": baseline,
        "baseline_cpu_seconds": theirs[0],
        "baseline_peak_bytes": theirs[1],
        "times_baseline": round(ours[0] / theirs[0], 2),
    }


def written(path: Path, rows: int, features: int) -> Path:
    """Writes a made-up CSV of ids, features that say something of the label, and labels."""
    stream = np.random.default_rng(0)
    labels = stream.integers(0, len(CLASSES), rows)
    numbers = stream.normal(size=(rows, features)) + stream.normal(size=(5, features))[labels]
    table = pd.DataFrame(numbers.round(4), columns=[f"x{each}" for each in range(features)])
    table.insert(0, "id", [f"p{each:07d}" for each in range(rows)])
    table["answer"] = np.array(CLASSES)[labels]
    table.to_csv(path, index=False)
    return path


@benchmark("commands", __doc__, rows="1000000", fit_rows="100000")
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields a row for each piece of work."""
    rows = integer("rows", options["rows"], low=10)
    fit_rows = integer("fit_rows", options["fit_rows"], low=100)
    imports = [work(program, times=5) for program in (PRIVATIZE, "import torch")]
    yield row("import and privatize", imports[0], "import torch", imports[1])
    labels = ["--label", "answer", "--classes", ",".join(CLASSES), "--row-id", "id", "--eps", 1]
    with tempfile.TemporaryDirectory() as name:
        source = written(Path(name) / "people.csv", rows, 1)
        asked = ["release", source, *labels, "--out"]
        first = work(COMMAND, 0, *asked, source.with_name("first.parquet"))
        second = work(COMMAND, 2, *asked, source.with_name("second.parquet"))
        read = work(READ, source)
        yield row(f"release {rows:,} rows", first, "pandas.read_csv", read)
        yield row(f"refuse a second release of {rows:,} rows", second, "pandas.read_csv", read)
    with tempfile.TemporaryDirectory() as name:
        source = written(Path(name) / "people.csv", 2 * fit_rows, 20)
        out, model, numbers, old, new, file, picture = (
            source.with_name(each)
            for each in ("release.parquet", "model.skops", "numbers.csv", "old.csv", "new.csv",
                         "file.csv", "picture.png")
        )  # fmt: skip
        work(COMMAND, 0, "release", source, *labels, "--out", out)
        table = pd.read_csv(source)
        table[:fit_rows].drop(columns="id").to_csv(numbers, index=False)
        table[:fit_rows].drop(columns="answer").to_csv(old, index=False)
        table[fit_rows:].to_csv(new, index=False)
        size, ids, by = f"{fit_rows:,} x 20, 5 classes", ["--row-id", "id"], ["--release", out]
        fit = work(COMMAND, 0, "fit", old, *by, *ids, "--out", model)
        folds = work(FOLDS, numbers)
        yield row(f"fit {size}", fit, "5 folds of LogisticRegression", folds)
        predict = work(COMMAND, 0, "predict", new, "--model", model, *ids, "--out", file)
        yield row(f"predict {size}", predict, "LogisticRegression", work(PREDICTED, new, file))
        evaluate = work(
            COMMAND, 0, "evaluate", new, *by, *ids, "--model", model, "--out", picture
        )  # fmt: skip
        scored = work(SCORED, new, picture)
        yield row(f"evaluate {size}", evaluate, "accuracy, loss, AUC, curves", scored)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
