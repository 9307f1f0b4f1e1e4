"""`labeldp-bench submit-check FILE ...`: what is missing in a record for the leaderboard.

    labeldp-bench submit-check FILE [FILE ...]

FILE is the record.json of a run. Each line says what is missing or wrong. Exit status 0: it can be
sent (docs/leaderboard.md says where). 1: something must be mended. 2: there is no such record.
"""

from collections.abc import Sequence
from pathlib import Path

from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command

NAME = "submit-check"


def is_submit_check(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks for this check, and not for a run."""
    return list(arguments[:1]) == [NAME]


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints what each record lacks; returns 1 if any does."""
    # Torch takes a second to import: `--help` need not wait for it.
    from labeldp_bench.reports.naming import counted
    from labeldp_bench.reports.submission import check_submission, read_submission

    if not arguments:
        raise InputError(f"{NAME} needs a file: {NAME} results/runs/.../record.json")
    records = {path: read_submission(Path(path).expanduser()) for path in arguments}
    failed = False
    for path, record in records.items():
        problems, notes = check_submission(record)
        said = ("mechanism", "dataset", "model", "eps", "seed")
        say(f"{path}: " + ", ".join(f"{key}={record.get(key, '?')}" for key in said))
        for line in problems:
            say(f"  mend  {line}")
        for line in notes:
            say(f"  note  {line}")
        count = counted([len(problems)], "thing")
        say(f"  {count} to mend" if problems else "  nothing is missing: it can be sent")
        failed |= bool(problems)
    return int(failed)
