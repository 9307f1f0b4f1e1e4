"""The check of a run's record before it is merged: what would make a table wrong or unreadable."""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from labeldp_bench.data.official import OFFICIAL
from labeldp_bench.experiments.identity import PAPER, SEEDED, canonical
from labeldp_bench.records.record import Record, fields_of

REQUIRED = {*fields_of("key"), *fields_of("merged")}
TRUSTED = ("local", "central", "none")
"""Who sees true labels, from nobody to everybody."""
TEST_SET = {name: [1] * OFFICIAL[name].num_classes for name in OFFICIAL} | {
    "mnist": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
}
"""{data set: how its 10,000 official test images are divided among the classes}."""
SLACK = 3e-6
"""Committed records have six digits."""
MACHINE_PATH = re.compile(r'"((?:~?/|[A-Za-z]:\\\\)[^"\s]*[/\\][^"]*)"')
"""In the JSON of a config."""


def problems_of(record: Record) -> list[str]:
    """Returns what keeps a run's record out of the tables, a line each."""
    if missing := sorted(REQUIRED - record.keys()):
        return [f"{key} is missing" for key in missing]
    return [*_provenance(record), *contradictions(record)]


def contradictions(record: Record) -> list[str]:
    """Returns what a record, or a row of the table, says twice and differently, or cannot be.

    Fields that are absent are not looked at: older versions did not write all of them.
    """
    try:
        return [*_identity(record), *_privacy(record), *_scores(record)]
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        return [f"a field has a value of the wrong kind: {error}"]


def _provenance(record: Record) -> Iterator[str]:
    """Yields what keeps others from repeating a run."""
    if str(record["git_commit"]).endswith("-dirty"):
        yield f"git_commit is {record['git_commit']}: files had uncommitted changes, commit them"
    for path in MACHINE_PATH.findall(json.dumps(record["config"])):
        yield f"config has the path {path}, which only this machine has"


def _identity(record: Record) -> Iterator[str]:
    """Yields the fields, and the settings of the config, that the identity contradicts."""
    identity = record["identity"]
    stated: dict[str, Any] = {
        "config_hash": hashlib.sha256(canonical(identity).encode()).hexdigest()[:16],
        **{key: identity[key] for key in ("mechanism", "model", "learner", "seed")},
        "dataset": identity.get("dataset.name", identity["dataset"]),
        "eps": float(identity.get("mechanism.eps", "inf")),
        "loss": identity.get("learner.loss"),
        "budget": identity.get("budget", PAPER),
        "pretrain": identity.get("pretrain", "none"),
        "noise": identity.get("noise", SEEDED),
    }
    fixed = ("trainer.selection", "dataset.trials", "dataset.n_train", "dataset.n_test")
    stated |= {key.partition(".")[2]: identity[key] for key in fixed if key in identity}
    for key, value in stated.items():
        own = record.get(key, value)
        if (float(own) if key == "eps" else own) != value:
            yield f"{key} is {own!r}, and the identity says {value!r}"
    for part in ("train", "test"):
        most = identity.get(f"dataset.limit_{part}")
        count = record.get(f"n_{part}", 1)
        if not 0 < count <= (most or math.inf):
            yield f"n_{part} is {count}, and the identity says at most {most or 'all'}"
    for key, value in identity.items():
        own = record.get("config") or {}
        for name in re.sub(r"^trainer\b", "model.trainer", key).split("."):
            own = own.get(name) if isinstance(own, dict) else None
        # A class or an option has no value of its own in the config.
        if isinstance(own, dict | list | None) or own == value or str(own) == value:
            continue
        yield f"config.{key} is {own!r}, and the identity says {value!r}"


def _privacy(record: Record) -> Iterator[str]:
    """Yields what a guarantee lacks, and what the lines of the ledger contradict."""
    eps, spent, delta = (float(record[key]) for key in ("eps", "eps_spent", "delta"))
    # Trials of a regression release the same labels again; those of a classification do not.
    trials = (record.get("trials") or 1) if record.get("task") == "regression" else 1
    if not (eps > 0 and 0 <= spent <= trials * eps * (1 + SLACK)):
        yield f"eps_spent is {spent:g}, and eps is {eps:g}"
    if not 0 <= delta < 1:
        yield f"delta must be in [0, 1), got {delta:g}"
    private, trust = record["private"], record["trust"]
    if private not in (True, False) or trust not in TRUSTED:
        yield f"private is {private!r} and trust is {trust!r}, of {', '.join(TRUSTED)}"
    elif private and (trust == "none" or math.isinf(eps)):
        yield f"private is true, and trust={trust} with eps={eps:g} protects nothing"
    lines = record.get("ledger") or []
    least = max((line["trust"] for line in lines), key=TRUSTED.index, default=trust)
    if trust != least:
        yield f"trust is {trust}, and the ledger says {least}"
    for key, field, total in (("eps", "eps_spent", spent), ("delta", "delta", delta)):
        most = max((float(line.get(key, 0)) for line in lines), default=0)
        if total < most * (1 - SLACK):
            yield f"{field} is {total:g}, and the ledger has a release of {most:g}"


def _scores(record: Record) -> Iterator[str]:
    """Yields accuracies that cannot be, or that those of single classes contradict."""
    accuracy, classes = record["accuracy"], record.get("per_class_accuracy")
    if accuracy is not None and not 0 <= accuracy <= 1 + SLACK:
        yield f"accuracy must be a fraction of 1, got {accuracy!r}"
    if record.get("selection") == "best_validation" and record["private"]:
        yield "selection is best_validation, whose true labels the budget does not cover"
    if classes is None or accuracy is None:
        return
    known = [each for each in classes if each is not None]
    if not known or not all(0 <= each <= 1 for each in known):
        yield "per_class_accuracy must hold fractions of 1"
        return
    mean = sum(known) / len(known)
    if abs(mean - record["per_class_mean"]) > SLACK:
        yield f"per_class_mean is {record['per_class_mean']}, and the classes have {mean:.6f}"
    shares = TEST_SET.get(record["dataset"], [])
    number = record["identity"].get("dataset.num_classes") or len(shares) or len(classes)
    low, high = min(known), max(known)
    if number != len(classes):
        yield f"per_class_accuracy has {len(classes)} classes, and the data set {number}"
    elif len(known) == len(shares) and record["n_test"] == 10_000:
        low = high = sum(map(math.prod, zip(known, shares, strict=True))) / sum(shares)
    if not low - SLACK <= accuracy <= high + SLACK:
        yield f"accuracy is {accuracy}, and the classes have {low:.6f} to {high:.6f}"
