"""`labeldp-bench submit-check FILE ...`: whether a record can be published.

    labeldp-bench submit-check FILE [FILE ...]

FILE is the record.json of a run. A line is printed for each field that is missing, impossible, or
contradicts another one. Exit status 0: the records can be sent (docs/leaderboard.md says where).
1: some problem must be fixed first. 2: a file is no record.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command
from labeldp_bench.records.record import Record
from labeldp_bench.records.validation import missing_to_publish, validate_record

NAME = "submit-check"


def is_submit_check(arguments: Sequence[str]) -> bool:
    """Returns whether a command line asks for this check, and not for a run."""
    return list(arguments[:1]) == [NAME]


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the problems of each record; returns 1 if there are any."""
    if not arguments:
        raise InputError(f"{NAME} needs a file: {NAME} results/runs/.../record.json")
    records = {path: read_submission(Path(path).expanduser()) for path in arguments}
    problems = {path: problems_of(record) for path, record in records.items()}
    for path, record in records.items():
        named = ("mechanism", "dataset", "model", "eps", "seed")
        say(f"{path}: " + ", ".join(f"{key}={record.get(key, '?')}" for key in named))
        for line in problems[path]:
            say(f"  fix  {line}")
        say(f"  {len(problems[path])} to fix" if problems[path] else "  it can be sent")
    return int(any(problems.values()))


def problems_of(record: Record) -> list[str]:
    """Returns what must be fixed in a record before it can be published."""
    missing = missing_to_publish(record)
    # A field that is missing would be reported twice.
    return missing or validate_record(record)


def read_submission(path: Path) -> Record:
    """Returns what a record.json says, as it is written.

    Raises:
        InputError: there is no such file, or it holds no JSON object.
    """
    try:
        record = json.loads(path.read_text())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot read {path}: {reason} (give the record.json of a run)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must hold the JSON of one record: {error}") from None
    if not isinstance(record, dict):
        raise InputError(f"{path} must hold one JSON object, got {type(record).__name__}")
    return record
