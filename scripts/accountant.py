"""What all committed records of a data set have spent together, if somebody counted all of them.

    python scripts/accountant.py [records=results/records.csv]

Records are made with public seeds on public labels: nothing of it is private, and nobody is harmed.
The table says what it would cost to do the same to labels that are secret. Runs that share one
release (same data set, mechanism, eps, seed and version of the draws) cost once where the learner
draws its prior from no model; others add up. Trials that release the same labels count each. Data
that are made up anew in every trial and seed are left out: nobody's labels are released twice.
"""

import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, print_head, print_row, read_arguments
from labeldp_bench.records.collect import COMMITTED, read_committed
from labeldp_bench.records.record import Record

MADE_UP = ("circle", "holder_classification", "holder_regression")
SHARE_A_RELEASE = ("single_stage",)
"""Learners whose release follows from data set, mechanism, eps, seed and version of the draws."""


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints a row for each data set; returns the exit status."""
    path = Path(read_arguments(arguments, {"records": str(COMMITTED)})["records"])
    if not path.is_file():
        raise InputError(f"records must be a table of records, and there is no {path}")
    found = spent(read_committed(path).values())  # first: a damaged file gets one line alone
    names = ("private records", "releases", "largest eps of one", "eps in all", "delta in all")
    print_head(("data set", *names))
    for dataset, releases in sorted(found.items()):
        records, costs = releases.pop("records"), releases.values()
        eps, delta = (math.fsum(parts) for parts in zip(*costs, strict=True))
        largest = max(costs)[0]
        print_row((dataset, records, len(costs), f"{largest:g}", f"{eps:,.6g}", f"{delta:g}"))
    return 0


def spent(records: Any) -> dict[str, dict[Any, Any]]:
    """Returns for each data set its number of private records and what each release cost."""
    found: dict[str, dict[Any, Any]] = defaultdict(lambda: {"records": 0})
    for record in records:
        eps = float(record["eps_spent"])
        if record["dataset"] in MADE_UP or not record["private"] or math.isinf(eps):
            continue
        own = found[record["dataset"]]
        own["records"] += 1
        own[release_of(record)] = cost(record)
    return found


def cost(record: Record) -> tuple[float, float]:
    """Returns eps and delta of a label in all trials; older records state those of one trial.

    Both add up: independent releases of one label.
    """
    spent_once, delta = float(record["eps_spent"]), float(record.get("delta") or 0)
    trials = float(record.get("trials") or 1)
    counted = spent_once > 1.5 * float(record["eps"])
    return (spent_once, delta) if counted else (spent_once * trials, delta * trials)


def release_of(record: Record) -> Any:
    """Returns a key that is equal for records which learned from one and the same release."""
    if record["learner"] not in SHARE_A_RELEASE or record.get("noise", "seeded") != "seeded":
        return record["config_hash"]
    identity = record["identity"]
    drawn = ("seed", "dataset", "mechanism")
    parts = {key: value for key, value in identity.items() if key.split(".")[0] in drawn}
    return (*sorted((key, str(value)) for key, value in parts.items()), record["draws"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
