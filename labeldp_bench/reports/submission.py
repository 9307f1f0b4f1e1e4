"""What stands between somebody's record.json and the leaderboard, in plain lines."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from labeldp.mechanisms.noise import DRAWS
from labeldp.support.validate import InputError, did_you_mean
from labeldp_bench.experiments.compose import mechanism_names
from labeldp_bench.experiments.identity import NOISES, SEEDED, canonical
from labeldp_bench.records.record import CHECKSUM, SCHEMA_VERSION, Record, checksum, draws_of
from labeldp_bench.training.trainer import SELECTIONS

REQUIRED = (
    "schema_version", "task", "dataset", "mechanism", "model", "learner", "eps", "seed", "budget",
    "accuracy", "per_class_accuracy", "per_class_mean", "eps_spent", "delta", "trust", "private",
    "released_agreement", "response_accuracy", "draws", "selection", "pretrain", "precision",
    "epochs", "n_train", "n_test", "wall_seconds", "images_per_second", "device", "torch_version",
    "git_commit", "config", "identity", "config_hash", "noise", CHECKSUM,
)  # fmt: skip
"""Every field that a record must have."""
MAY_BE_EMPTY = {"released_agreement", "response_accuracy", "epochs", "images_per_second"}
"""Fields that some methods have no value for: sums of labels, models without epochs."""
TRUSTED = ("local", "central", "none")
SAME_IN_IDENTITY = ("mechanism", "model", "learner", "seed", "pretrain")
SLACK = 1e-6
MACHINE_PATH = re.compile(r"(/|~/|[A-Za-z]:\\)\S*[/\\]")


class Report(NamedTuple):
    """What a check of a record says.

    Attributes:
        problems: each must be mended before the record can be taken.
        notes: what a reader should know; they do not stand in the way.
    """

    problems: list[str]
    notes: list[str]


def read_submission(path: Path) -> Record:
    """Returns what a record.json says, as it is written.

    Raises:
        InputError: there is no such file, or it holds no JSON object.
    """
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()} (give the record.json "
            "of a run's folder)"
        ) from None
    except ValueError as error:
        raise InputError(
            f"{path} must hold the JSON of one record: {error} (send the file as the run wrote it)"
        ) from None
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold one JSON object, got {type(found).__name__}")
    return found


def check_submission(record: Record) -> Report:
    """Returns what is missing or wrong in a record, as it is written in its file."""
    absent = [key for key in REQUIRED if key not in record]
    empty = [
        key for key in REQUIRED if key in record and record[key] is None and key not in MAY_BE_EMPTY
    ]
    problems = [f"{key} is missing" for key in absent]
    problems += [f"{key} is empty" for key in empty]
    known = {key: value for key, value in record.items() if key not in empty}
    for part in (_whole, _privacy, _scores, _selection, _origin):
        try:
            problems += part(known)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            problems.append(f"a field has a value of the wrong kind: {error}")
    return Report(problems, list(_notes(known)) if not (absent or empty) else [])


def _whole(record: Record) -> Iterator[str]:
    """Yields what contradicts itself: the text against its checksum, the identity its hash."""
    if record.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        yield f"schema_version must be {SCHEMA_VERSION}, got {record['schema_version']!r}"
    if CHECKSUM in record and record[CHECKSUM] != (now := checksum(record)):
        yield (
            f"checksum is {record[CHECKSUM]}, and what the record says has {now}: it was changed "
            "after its run (send the file as the run wrote it)"
        )
    identity = record.get("identity")
    if not isinstance(identity, dict):
        return
    digest = hashlib.sha256(canonical(identity).encode()).hexdigest()[:16]
    if record.get("config_hash", digest) != digest:
        yield f"config_hash is {record['config_hash']}, and the identity has {digest}"
    for key in SAME_IN_IDENTITY:
        own = identity.get(key, "none")  # `pretrain` is left out where there is none
        if key in record and record[key] != own:
            yield f"{key} is {record[key]!r}, and the identity says {own!r}"


def _privacy(record: Record) -> Iterator[str]:
    """Yields what a guarantee lacks."""
    eps, spent = (
        _number(key, record[key], may_be_infinite=True) if key in record else math.nan
        for key in ("eps", "eps_spent")
    )
    if eps <= 0:
        yield f"eps must be > 0, got {eps:g}"
    if spent > eps * (1 + SLACK):
        yield f"eps_spent is {spent:g}, more than eps={eps:g}"
    delta = _number("delta", record.get("delta", 0))
    if not 0 <= delta < 1:
        yield f"delta must be in [0, 1), got {delta:g}"
    trust, private = record.get("trust", "local"), record.get("private")
    if trust not in TRUSTED:
        yield f"trust must be one of {', '.join(TRUSTED)}, got {trust!r}"
    if private not in (True, False, None):
        yield f"private must be true or false, got {private!r}"
    if private is True and trust == "none":
        yield "private is true, and trust is none: say who sees the labels (local or central)"
    if private is True and (math.isinf(eps) or math.isinf(spent)):
        yield "private is true, and eps is infinite: that protects nothing"
    if "central" in [entry.get("trust") for entry in record.get("ledger") or []] and (
        trust == "local"
    ):
        yield "trust is local, and the ledger has a release that a curator made (central)"
    noise = record.get("noise", SEEDED)
    if noise not in NOISES:
        yield f"noise must be one of {', '.join(NOISES)}, got {noise!r}"
    said = (record.get("identity") or {}).get("noise", SEEDED)
    if noise in NOISES and said != noise:
        yield f"noise is {noise}, and the identity says {said}"


def _scores(record: Record) -> Iterator[str]:
    """Yields what accuracies contradict."""
    if record.get("task", "classification") != "classification":
        yield f"task must be classification, got {record['task']!r} (there is no other board)"
        return
    for key in ("accuracy", "per_class_mean"):
        if key in record and not 0 <= _number(key, record[key]) <= 1:
            yield f"{key} must be a fraction of 1, got {record[key]!r}"
    classes = record.get("per_class_accuracy")
    if classes is None:
        return
    seen = [_number("per_class_accuracy", each) for each in classes if each is not None]
    if not seen:
        yield "per_class_accuracy has no class"
        return
    if not all(0 <= each <= 1 for each in seen):
        yield "per_class_accuracy must hold fractions of 1"
    mean = sum(seen) / len(seen)
    said = _number("per_class_mean", record.get("per_class_mean", mean))
    if abs(mean - said) > SLACK:
        yield f"per_class_mean is {said}, and the classes have {mean:.6f}"
    accuracy = _number("accuracy", record.get("accuracy", mean))
    if not min(seen) - SLACK <= accuracy <= max(seen) + SLACK:
        yield (
            f"accuracy is {accuracy}, outside of its classes' {min(seen):.4f} to {max(seen):.4f}"
        )
    number = (record.get("identity") or {}).get("dataset.num_classes")
    if number is not None and number != len(classes):
        yield f"per_class_accuracy has {len(classes)} classes, and the data set {number}"


def _selection(record: Record) -> Iterator[str]:
    """Yields what is wrong with the epochs that the accuracy comes from."""
    rule = record.get("selection")
    if rule is not None and rule not in SELECTIONS:
        test = " (an epoch that test labels chose is not taken)" if "best" in str(rule) else ""
        yield f"selection must be one of {', '.join(SELECTIONS)}, got {rule!r}{test}"
    said = (record.get("identity") or {}).get("trainer.selection")
    if rule in SELECTIONS and said is not None and said != rule:
        yield f"selection is {rule}, and the identity says {said}"
    if rule == "best_validation" and record.get("private") is True:
        yield (
            "selection is best_validation, which uses true labels, and private is true: the budget "
            "does not cover those labels (use selection=last)"
        )


def _origin(record: Record) -> Iterator[str]:
    """Yields what keeps others from running it again."""
    commit = record.get("git_commit")
    if isinstance(commit, str) and not re.fullmatch(r"[0-9a-f]{40}", commit):
        why = "its files were changed" if commit.endswith("-dirty") else "no commit of 40 digits"
        yield f"git_commit is {commit!r}: {why}: nobody can run it again (commit, then run)"
    for path in _paths(record.get("config"), "config"):
        yield f"{path} is a path of your machine (a record holds none)"
    for key in ("n_train", "n_test", "wall_seconds"):
        if key in record and _number(key, record[key]) <= 0:
            yield f"{key} must be > 0, got {record[key]!r}"


def _notes(record: Record) -> Iterator[str]:
    name, names = str(record["mechanism"]), mechanism_names()
    if name not in names:
        yield f"mechanism {name!r} is not in this version{did_you_mean(name, names)}: add its code"
    if draws_of(record) < DRAWS:
        yield (
            f"draws is {record['draws']}, and this version has none below {DRAWS}: runs "
            "of both are never averaged"
        )
    if record.get("private") is False:
        yield "private is false: the row stands apart, without a guarantee"
    if record.get("noise") == SEEDED and record.get("private"):
        yield "noise is seeded: right for a benchmark; it protects no label that is secret"


def _paths(node: Any, where: str) -> Iterator[str]:
    """Yields the keys whose values are paths of a machine."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _paths(value, f"{where}.{key}")
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for number, value in enumerate(node):
            yield from _paths(value, f"{where}[{number}]")
    elif isinstance(node, str) and MACHINE_PATH.match(node):
        yield where


def _number(name: str, value: Any, *, may_be_infinite: bool = False) -> float:
    """Returns a number as a record writes it: infinity is the text "inf", and NaN is none."""
    if may_be_infinite and value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)
