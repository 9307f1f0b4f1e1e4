"""The check of a record: what it says twice must agree, and what it says must be possible."""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import hydra

from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.compose import compose_cell, mechanism_names
from labeldp_bench.experiments.identity import NOISES, PAPER, SEEDED, canonical
from labeldp_bench.records.record import CHECKSUM, SCHEMA_VERSION, Record, checksum

_REQUIRED = """
schema_version task dataset mechanism model learner eps seed budget accuracy per_class_accuracy
per_class_mean eps_spent delta trust private released_agreement response_accuracy draws
distribution selection pretrain precision epochs n_train n_test wall_seconds images_per_second
device torch_version git_commit config identity config_hash noise checksum
"""
REQUIRED = _REQUIRED.split()
"""Every field that a record must have to be published."""
MAY_BE_EMPTY = {"released_agreement", "response_accuracy", "epochs", "images_per_second"}
"""Fields that some methods have no value for: sums of labels, models without epochs."""
TRUSTED = ("local", "central", "none")
"""Who sees true labels, from nobody to everybody."""
# The trainer's own list would import torch wherever records are read.
SELECTIONS = ("last", "mean_last_10", "best_validation")
FRACTIONS = (
    "accuracy",
    "per_class_mean",
    "best_epoch_accuracy",
    "bayes_accuracy",
    "released_agreement",
    "response_accuracy",
    "auc",
    "average_precision",
)
TEST_SET = {name: [1] * OFFICIAL[name].num_classes for name in OFFICIAL} | {
    "mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
}
"""{data set: how its 10,000 official test images are divided among the classes}."""
SLACK = 3e-6
"""Committed records have six digits."""
MACHINE_PATH = re.compile(r"(/|~/|[A-Za-z]:\\)\S*[/\\]")


def validate_record(record: Record) -> list[str]:
    """Returns what contradicts itself or cannot be in a record, a line each.

    Fields that are absent are not asked for: older versions did not write all of them.

    Args:
        record: as `record.json` or `results/records.csv` holds it; infinity may be the text "inf".
    """
    problems: list[str] = []
    for check in _CHECKS:
        try:
            problems += check(record)
        except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
            problems.append(f"a field has a value of the wrong kind: {error}")
    return problems


def missing_to_publish(record: Record) -> list[str]:
    """Returns what keeps others from reading and repeating a record, a line each."""
    problems = [f"{key} is missing" for key in REQUIRED if key not in record]
    problems += [
        f"{key} is empty"
        for key in REQUIRED
        if key in record and record[key] is None and key not in MAY_BE_EMPTY
    ]
    task, commit = record.get("task") or "classification", record.get("git_commit")
    if task != "classification":
        problems.append(f"task must be classification, got {task!r}")
    if isinstance(commit, str) and not re.fullmatch(r"[0-9a-f]{40}", commit):
        why = "files were changed" if commit.endswith("-dirty") else "no commit of 40 digits"
        problems.append(f"git_commit is {commit!r} ({why}: commit, then run again)")
    paths = _paths(record.get("config"), "config")
    return problems + [f"{path} is a path of your machine (a record holds none)" for path in paths]


def _whole(record: Record) -> Iterator[str]:
    """Yields what differs between the text and its checksum, the identity and its hash."""
    if record.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        yield f"schema_version must be {SCHEMA_VERSION}, got {record['schema_version']!r}"
    if CHECKSUM in record and record[CHECKSUM] != (now := checksum(record)):
        yield f"checksum is {record[CHECKSUM]}, and the record has {now}: it was changed"
    digest = hashlib.sha256(canonical(record["identity"]).encode()).hexdigest()[:16]
    if record["config_hash"] != digest:
        yield f"config_hash is {record['config_hash']}, and the identity has {digest}"


def _identity(record: Record) -> Iterator[str]:
    """Yields the fields that differ from what the identity says."""
    identity = record["identity"]
    names = (identity["dataset"], identity.get("dataset.name", identity["dataset"]))
    if record["dataset"] not in names:
        yield f"dataset is {record['dataset']!r}, and the identity says {names[0]!r}"
    derived = {key: identity[key] for key in ("mechanism", "model", "learner", "seed")} | {
        "loss": identity.get("learner.loss"),
        "budget": identity.get("budget", PAPER),
        "pretrain": identity.get("pretrain", "none"),
        "noise": identity.get("noise", SEEDED),
    }
    for key, own in (("selection", "trainer.selection"), ("trials", "dataset.trials")):
        if own in identity:
            derived[key] = identity[own]
    for key, value in derived.items():
        if key in record and record[key] != value:
            yield f"{key} is {record[key]!r}, and the identity says {value!r}"
    eps = _number("mechanism.eps", identity.get("mechanism.eps", "inf"))
    if _number("eps", record["eps"]) != eps:
        yield f"eps is {record['eps']}, and the identity says {eps:g}"


def _config(record: Record) -> Iterator[str]:
    """Yields the settings of the config that the identity contradicts."""
    config = record.get("config")
    if config is None:
        return
    for key, value in record["identity"].items():
        path = key.replace("trainer", "model.trainer", 1) if key.startswith("trainer") else key
        node: Any = config
        for part in path.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        plain = [each for each in (node if isinstance(node, list) else [node]) if each is not None]
        if not plain or any(isinstance(each, dict) for each in plain):  # a class, or an option
            continue
        if node != value and str(node) != value:
            yield f"config.{path} is {node!r}, and the identity says {value!r}"


def _privacy(record: Record) -> Iterator[str]:
    """Yields what a guarantee lacks."""
    eps, spent = (_number(key, record[key]) for key in ("eps", "eps_spent"))
    if eps <= 0:
        yield f"eps must be > 0, got {eps:g}"
    # Trials of a regression release the same labels again; those of a classification do not.
    trials = (record.get("trials") or 1) if record.get("task") == "regression" else 1
    if not 0 <= spent <= trials * eps * (1 + SLACK):
        yield f"eps_spent is {spent:g}, and eps is {eps:g}"
    if not 0 <= _number("delta", record.get("delta", 0.0)) < 1:
        yield f"delta must be in [0, 1), got {record['delta']}"
    allowed = {"trust": TRUSTED, "private": (True, False), "noise": NOISES}
    for key, values in allowed.items():
        if record.get(key) not in (*values, None):
            yield f"{key} must be one of {', '.join(map(str, values))}, got {record[key]!r}"
    if record.get("private") and record.get("trust") == "none":
        yield "private is true, and trust is none"
    if record.get("private") and math.isinf(eps):
        yield "private is true, and eps is infinite: that protects nothing"


def _mechanism(record: Record) -> Iterator[str]:
    """Yields what one of our mechanisms does not promise."""
    name, trust = record["mechanism"], record.get("trust")
    if name not in mechanism_names():
        return
    known = _class_of(name)
    private = known.private and math.isfinite(_number("eps", record["eps"]))
    if record.get("private") not in (private, None):
        yield f"private is {record['private']!r}, and mechanism={name} says {private}"
    if trust in TRUSTED and TRUSTED.index(trust) < TRUSTED.index(known.trust):
        yield f"trust is {trust}, and mechanism={name} says {known.trust}"


def _ledger(record: Record) -> Iterator[str]:
    """Yields what the lines of the ledger contradict."""
    lines = record.get("ledger") or []
    if not lines:
        return
    trust = max((line["trust"] for line in lines), key=TRUSTED.index)
    if record["trust"] != trust:
        yield f"trust is {record['trust']}, and the ledger says {trust}"
    for key, field in (("eps", "eps_spent"), ("delta", "delta")):
        most = max(_number(key, line.get(key, 0.0)) for line in lines)
        if _number(field, record[field]) < most * (1 - SLACK):
            yield f"{field} is {record[field]}, and the ledger has a release of {most:g}"


def _scores(record: Record) -> Iterator[str]:
    """Yields scores that cannot be, and what is wrong with the epochs they come from."""
    for key in FRACTIONS:
        value = record.get(key)
        if value is not None and not 0 <= _number(key, value) <= 1 + SLACK:
            yield f"{key} must be a fraction of 1, got {value!r}"
    rule = record.get("selection", "last")
    if rule not in SELECTIONS:
        yield f"selection must be one of {', '.join(SELECTIONS)}, got {rule!r}"
    if rule == "best_validation" and record.get("private"):
        yield "selection is best_validation, whose true labels the budget does not cover"


def _classes(record: Record) -> Iterator[str]:
    """Yields what the accuracies of single classes contradict."""
    classes = record.get("per_class_accuracy")
    if classes is None or record.get("accuracy") is None:
        return
    known = [_number("per_class_accuracy", each) for each in classes if each is not None]
    if not known or not all(0 <= each <= 1 for each in known):
        yield "per_class_accuracy must hold fractions of 1"
        return
    mean, accuracy = sum(known) / len(known), _number("accuracy", record["accuracy"])
    if abs(mean - _number("per_class_mean", record["per_class_mean"])) > SLACK:
        yield f"per_class_mean is {record['per_class_mean']}, and the classes have {mean:.6f}"
    low, high = min(known) - SLACK, max(known) + SLACK
    shares = TEST_SET.get(record["dataset"], ())
    number = record["identity"].get("dataset.num_classes") or len(shares) or len(classes)
    if number != len(classes):
        yield f"per_class_accuracy has {len(classes)} classes, and the data set {number}"
    elif len(known) == len(shares) and record.get("n_test") == 10_000:
        own = sum(map(math.prod, zip(known, shares, strict=True))) / sum(shares)
        low, high = own - SLACK, own + SLACK
    if not low <= accuracy <= high:
        yield f"accuracy is {accuracy}, and the classes have {low:.6f} to {high:.6f}"


def _sizes(record: Record) -> Iterator[str]:
    """Yields numbers of examples that the identity contradicts, and costs that cannot be."""
    identity = record["identity"]
    for part, name in (("train", "n_train"), ("test", "n_test")):
        limit = identity.get(f"dataset.{name}", identity.get(f"dataset.limit_{part}"))
        exact = f"dataset.{name}" in identity
        count = record.get(name)
        if None not in (limit, count) and (count > limit or (exact and count != limit)):
            yield f"{name} is {count}, and the identity says {limit}"
    for key in ("n_train", "n_test", "wall_seconds"):
        value = record.get(key)
        if value is not None and not 0 < _number(key, value) < math.inf:
            yield f"{key} must be > 0 and finite, got {value!r}"


@cache
def _class_of(mechanism: str) -> Any:
    """Returns the class of one of our mechanisms, never one that the record itself names."""
    config = compose_cell([f"mechanism={mechanism}"]).config
    return hydra.utils.get_class(config["mechanism"]["_target_"])


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


def _number(name: str, value: Any) -> float:
    """Returns a number as a record writes it: infinity is the text "inf", and NaN is none."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(value)


_CHECKS = (
    _whole,
    _identity,
    _config,
    _privacy,
    _mechanism,
    _ledger,
    _scores,
    _classes,
    _sizes,
)
