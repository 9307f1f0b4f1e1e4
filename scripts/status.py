"""Prints for each experiment: cells done, failed, missing, hours to go here, and the command.

    python scripts/status.py [budget=quick] [experiment=blockrr/table3,quickstart] [out_dir=FOLDER]

`budget` is one of configs/budget, paper by default; the last lines name them all. Without
`experiment` all are listed.
Hours are for the device at hand, one process, from what was measured on the same hardware, or
else on another CPU or GPU.
"""

import sys
from pathlib import Path

from labeldp.support.validate import InputError, check_choice
from labeldp_bench.cli.help import file_of, first_sentence
from labeldp_bench.cli.script import command, listed, read_arguments
from labeldp_bench.experiments.compose import choices_of
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.reports.status import every_status, hours, table
from labeldp_bench.support.device import describe_device, resolve_device

OWN = {"budget": PAPER, "experiment": "", "out_dir": "results/runs"}


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the table and what is missing in all."""
    own = read_arguments(arguments, OWN)
    budgets = choices_of("budget")
    budget = check_choice("budget", own["budget"], budgets)
    names = listed(own["experiment"])
    for name in names:
        file_of("experiment", name)  # refuses an unknown one
    out_dir = Path(own["out_dir"]).expanduser()
    # The usual folder is not there before the first run; another one would be a typing error.
    if own["out_dir"] != OWN["out_dir"] and not out_dir.is_dir():
        raise InputError(f"out_dir must be the folder of your runs, got '{out_dir}' (no folder)")
    device = resolve_device("auto")
    statuses = every_status(out_dir, device, budget, names)
    print(f"At budget {budget}, on {describe_device(device)}:\n\n{table(statuses, budget)}\n")
    left = {key: value for status in statuses for key, value in status.left.items()}
    sources = ", ".join(sorted(set().union(*(status.sources for status in statuses))))
    if left:
        print(f"Missing in all, shared runs once: {len(left)} runs, {hours(left)} hours", end="")
        print(f" (from {sources})." if sources else ".")
    print("\nBudgets, each with cells of its own:\n")
    for name, path in budgets.items():
        shown = "shown above" if name == budget else f"python scripts/status.py budget={name}"
        print(f"  {name:<8} {shown:<42} {first_sentence(path)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
