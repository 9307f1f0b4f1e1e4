"""What `plan` predicted against what then happened, on data that it has not seen.

    python -m benchmarks.plan_check [sources=scikit_learn,r]

Half of the rows are released and learnt by the default model, the others measure its true accuracy;
mean of three seeds, eps=1 and 4. Data: ten tasks that scikit-learn ships, and the unseen half of
R's tables (benchmarks/plan_tables.py; they need `pip install 'labeldp-bench[plan]'`). None
of them is among the data sets that plan_calibration.py measured, and no range was mended by what
came out here. Writes results/benchmarks/plan.csv: four ranges, nominal 90 %, with rows and
classes alone, with features, with the class shares, with both. Ten minutes of one core.
"""

import sys
import warnings

import numpy as np
import pandas as pd

from benchmarks.plan_calibration import measured_accuracy
from benchmarks.plan_tables import Task, scikit_learn_tasks, table_task, unseen
from benchmarks.table import BENCHMARKS
from labeldp.planning import plan
from labeldp.support.files import write_text
from labeldp.support.progress import progress_bar
from labeldp.support.validate import check_choice
from labeldp_bench.cli.script import command, output_file, read_arguments, some

BUDGETS = (1.0, 4.0)
SEEDS = range(3)
SOURCES = ("scikit_learn", "r")
KINDS = ("", "_with_features", "_with_shares", "_with_both")


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the table."""
    values = read_arguments(
        arguments, {"sources": ",".join(SOURCES), "out": str(BENCHMARKS / "plan.csv")}
    )
    out = output_file("out", values["out"])
    texts = some("sources", values["sources"])
    sources = [check_choice("sources", each, SOURCES) for each in texts]
    warnings.simplefilter("ignore")  # of releases that are practically noise
    tasks: list[Task | str] = []
    tasks += scikit_learn_tasks() if "scikit_learn" in sources else []
    tasks += unseen() if "r" in sources else []
    rows = []
    for each in progress_bar(tasks, len(tasks), "tasks"):
        source = "scikit_learn" if isinstance(each, Task) else "r"
        task = each if isinstance(each, Task) else table_task(each)
        rows += [[source, *compared(task, eps)] for eps in BUDGETS]
    ranges = [f"{end}{kind}" for kind in KINDS for end in ("low", "middle", "high", "inside")]
    columns = ["source", "task", "rows", "classes", "eps", "mechanism", "measured", *ranges]
    table = pd.DataFrame(rows, columns=columns)
    write_text(out, table.to_csv(index=False, float_format="%.4f"))
    print(table.to_string(index=False))
    for source, part in table.groupby("source"):
        for kind in KINDS:
            far = (part["middle" + kind] - part["measured"]).abs()
            wide = (part["high" + kind] - part["low" + kind]) / (1 - 1 / part["classes"])
            print(f"{source}{kind}: {part['inside' + kind].sum()} of {len(part)} inside, width "
                  f"{wide.mean():.2f} of the way from chance to certainty, middle "
                  f"off by {far.mean():.3f} (mean)")  # fmt: skip
    print(f"wrote {out}")
    return 0


def compared(task: Task, eps: float) -> list[object]:
    """Returns what a plan says of a task, and what then happened."""
    count, half = task.num_classes, (len(task.labels) + 1) // 2
    shares = (np.bincount(task.labels) / len(task.labels)).tolist()
    plans = [
        plan(half, count, eps, class_shares=given, X=X)
        for given, X in (
            (None, None), (None, task.features), (shares, None), (shares, task.features)
        )
    ]  # fmt: skip
    name = plans[0].mechanism
    accuracy = float(np.mean([measured_accuracy(task, eps, name, seed) for seed in SEEDS]))
    row: list[object] = [task.name, half, count, eps, name, accuracy]
    for each in plans:
        low, high = each.accuracy_low, each.accuracy_high
        row += [low, each.accuracy_middle, high, low <= accuracy <= high]
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
