"""Prints for each experiment: cells done, failed, missing, hours to go here, and the command.

    python scripts/status.py [budget] [experiment ...]

Hours are for the device at hand, one process, from what was measured on the same hardware.
"""

import sys
from pathlib import Path

from labeldp_bench.config import PAPER, experiment_names
from labeldp_bench.place import describe_device, resolve_device
from labeldp_bench.status import every_status, hours, table
from labeldp_bench.validate import InputError, check_choice

OUT_DIR = Path("results/runs")
BUDGETS = (PAPER, "quick", "smoke")


def main() -> None:
    """Entry point: a budget (default: paper), then names of experiments (default: all)."""
    arguments = sys.argv[1:]
    budget = arguments.pop(0) if arguments and arguments[0] in BUDGETS else PAPER
    try:
        names = [check_choice("experiment", name, experiment_names()) for name in arguments]
    except InputError as error:
        sys.exit(f"error: {error}")
    device = describe_device(resolve_device("auto"))
    statuses = every_status(OUT_DIR, device, budget, names)
    print(f"At budget {budget}, on {device}:\n\n{table(statuses, budget)}\n")
    left = {key: value for status in statuses for key, value in status.left.items()}
    sources = ", ".join(sorted(set().union(*(status.sources for status in statuses))))
    if left:
        print(f"Missing in all, shared runs once: {len(left)} runs, {hours(left)} hours", end="")
        print(f" (from {sources})." if sources else ".")


if __name__ == "__main__":
    main()
