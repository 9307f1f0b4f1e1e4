"""The leaderboard: one row per method, data set and eps, from committed records alone."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

from labeldp.support.files import write_text
from labeldp_bench.experiments.identity import PAPER, all_but_seed
from labeldp_bench.records.collect import read_committed
from labeldp_bench.records.record import Record, Records, guarantee, json_safe
from labeldp_bench.reports.draws import Average, average
from labeldp_bench.reports.naming import setting_of
from labeldp_bench.support.checkout import CHECKOUT
from papers.site.best_known import ON_A_GRAPH
from papers.site.commands import command_of, overrides_of
from papers.site.html import TEMPLATES

LEADERBOARD = CHECKOUT / "results" / "leaderboard.json"
UNIT = "one label: neighbours differ in the label of one training example"
UNIT_OF_ROWS = "all labels of one unit: neighbours differ in at most {rows} labels, of one unit"
FEATURES = {
    "simclr": "a network trained on the unlabelled training images (SimCLR)",
    "cifar100": "a network trained on CIFAR-100, whose labels count as public",
    "patches": "whitened patches of the unlabelled training images",
    "patches_simclr": "whitened patches and a network (SimCLR), both of the unlabelled training "
    "images",
    "mirrored": "whitened patches and a network (SimCLR), both of the unlabelled training images, "
    "averaged over each image and its mirror image",
}
"""{pretrain: what was known before any label was released}."""
Row = dict[str, Any]


def rows_of(records: Records, *, with_commands: bool = True) -> list[Row]:
    """Returns a row per method, data set and eps; accuracies are fractions of 1.

    A method is all that decides a result beside data, eps and seed. Of runs with several versions
    of the samplers the newest count. Records without an accuracy (regression, theory) have no row.
    low and high are the ends of the 95 % t interval over seeds, or over the trials of one seed;
    missing where neither is known. Rows without a guarantee have `private` false. Sorted by data
    set, eps, trust, and accuracy from the highest on.

    Args:
        records: {config_hash: record}, as committed.
        with_commands: whether to look for the commands that repeat the rows; takes half a minute.
    """
    points: dict[str, list[Record]] = defaultdict(list)
    for record in records.values():
        if record.get("accuracy") is not None:
            points[all_but_seed(record["identity"])].append(record)
    found = [average(same, "accuracy") for same in points.values()]
    ones = [each.kept[0] for each in found]
    spelled = overrides_of(ones) if with_commands else {}
    varying = _varying_data(ones)
    rows = [_row(each, spelled.get(each.kept[0]["config_hash"]), varying) for each in found]
    _tell_apart(rows, ones)
    return sorted(rows, key=_place)


def write_leaderboard() -> list[Row]:
    """Writes the JSON and, beside it, the page; returns the rows."""
    rows = rows_of(read_committed())
    lines = ",\n".join(json.dumps(json_safe(row), allow_nan=False) for row in rows)
    write_text(LEADERBOARD, f"[\n{lines}\n]\n")  # a line per row: readable in a diff
    write_text(LEADERBOARD.with_suffix(".html"), page_of(rows))
    return rows


def page_of(rows: Sequence[Row]) -> str:
    """Returns the page of the rows: sorted and filtered in the browser, nothing is loaded."""
    return TEMPLATES.get_template("leaderboard.html.j2").render(
        rows=rows,
        data_sets=sorted({row["data"] for row in rows}),
        budgets=[f"{eps:g}" for eps in sorted({row["eps"] for row in rows})],
        percent=_percent,
        unit=UNIT,
    )


def _row(found: Average, overrides: Sequence[str] | None, varying: Set[tuple[str, str]]) -> Row:
    record, estimate = found.kept[0], found.estimate
    identity = record["identity"]
    rows = identity.get("dataset.rows_per_unit", 1)
    seeds = sorted({int(each["seed"]) for each in found.kept})
    in_order = sorted(found.kept, key=lambda each: int(each["seed"]))
    return {
        "dataset": record["dataset"],
        "data": _data_of(record, varying),
        "eps": float(record["eps"]),
        "method": _method_of(record),
        "mechanism": record["mechanism"],
        "loss": record.get("loss"),
        "learner": record["learner"],
        "model": record["model"],
        "pretrain": record.get("pretrain") or "none",
        "features": _features_of(record),
        "budget": record.get("budget") or PAPER,
        "accuracy": _rounded(estimate.value),
        "low": _rounded(estimate.low),
        "high": _rounded(estimate.high),
        "n_seeds": len(seeds),
        "seeds": seeds,
        "trials": _whole(record.get("trials")),
        "trust": record["trust"],
        "private": bool(record["private"]),
        "guarantee": guarantee(record),
        "delta": float(record["delta"]),
        "eps_spent": max(float(each["eps_spent"]) for each in found.kept),
        "unit": UNIT if rows == 1 else UNIT_OF_ROWS.format(rows=rows),
        "selection": record["selection"],
        "tuning": identity.get("tuning", "none"),
        "noise": identity.get("noise", "seeded"),
        "epochs": _whole(record.get("epochs")),
        "n_train": _whole(record.get("n_train")),
        "n_test": _whole(record.get("n_test")),
        "draws": record["draws"],
        "older_runs_left_out": found.older,
        "command": command_of(overrides, seeds) if overrides else None,
        "records": [each["config_hash"] for each in in_order],
        "git_commits": sorted({str(each["git_commit"]) for each in in_order if each["git_commit"]}),
    }


def _varying_data(records: Sequence[Record]) -> set[tuple[str, str]]:
    """Returns (data set, setting) for the settings of data that differ among the records."""
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    names = {str(record["dataset"]) for record in records}
    keys = {key for each in records for key in each["identity"] if key.startswith("dataset.")}
    for record in records:
        for key in keys - {"dataset.trials"}:  # how often, not of what
            values[str(record["dataset"]), key].add(repr(record["identity"].get(key)))
    return {(name, key) for name in names for key in keys if len(values[name, key]) > 1}


def _data_of(record: Record, varying: Set[tuple[str, str]]) -> str:
    """Returns the data set and what was chosen of it: `circle, num_classes=40, sigma=2/K`."""
    name = str(record["dataset"])
    chosen = {
        key.removeprefix("dataset."): value
        for key, value in record["identity"].items()
        if (name, key) in varying
    }
    return ", ".join([name, *_spelled(chosen)])


def _method_of(record: Record) -> str:
    """Returns mechanism, loss and network; what else tells rows apart is added later."""
    learner, pretrain = record["learner"], record.get("pretrain") or "none"
    setting = setting_of(record["identity"])
    parts = [record["mechanism"], setting, record.get("loss"), record["model"]]
    parts += [learner] if learner != "single_stage" else []
    parts += [f"pretrain={pretrain}"] if pretrain != "none" else []
    budget = record.get("budget") or PAPER
    parts += [f"budget={budget}"] if budget != PAPER else []
    return ", ".join(str(part) for part in parts if part)


def _features_of(record: Record) -> str:
    """Returns what was learnt without a release, in words."""
    pretrain = str(record.get("pretrain") or "none")
    learnt = [FEATURES.get(pretrain, pretrain)] if pretrain != "none" else []
    if record["model"] in ON_A_GRAPH:
        learnt.append("a graph of neighbours among the unlabelled images")
    return "; ".join(learnt) or "none"


def _tell_apart(rows: Sequence[Row], records: Sequence[Record]) -> None:
    """Adds to the names of methods what differs, where two rows would read the same."""
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        alike[row["data"], row["eps"], row["method"]].append(number)
    for numbers in alike.values():
        identities = [records[number]["identity"] for number in numbers]
        keys = sorted({key for identity in identities for key in identity} - {"seed"})
        varying = [key for key in keys if len({repr(each.get(key)) for each in identities}) > 1]
        for number, identity in zip(numbers, identities, strict=True):
            own = _spelled({key: identity[key] for key in varying if key in identity})
            rows[number]["method"] = ", ".join([rows[number]["method"], *own])


def _spelled(values: Mapping[str, Any]) -> list[str]:
    return [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in values.items()
    ]


def _place(row: Row) -> tuple[object, ...]:
    trust = ("local", "central", "none").index(row["trust"]) if row["private"] else 3
    return (row["data"], row["eps"], trust, -row["accuracy"], row["method"])


def _percent(row: Row) -> str:
    """Returns the accuracy in percent ± half its interval."""
    if row["low"] is None:
        return f"{100 * row['accuracy']:.1f}"
    return f"{100 * row['accuracy']:.1f} ± {50 * (row['high'] - row['low']):.1f}"


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
