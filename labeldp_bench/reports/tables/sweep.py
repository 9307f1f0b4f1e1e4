"""A sweep as numbers and as Markdown: what is averaged, and what tells its lines apart."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labeldp_bench.experiments.cell import NO_GUARANTEE
from labeldp_bench.records.record import Record, draws_of, is_heuristic
from labeldp_bench.reports.draws import OLDER, left_out, newest, without_zeros
from labeldp_bench.reports.figures.sweep import X_LABELS, is_free, series_name
from labeldp_bench.reports.naming import data_name_of
from labeldp_bench.reports.rendering import markdown_table

RISKS = {"excess_risk": "excess risk", "test_mse": "test MSE"}
"""Fields of records that stand where classes would have an accuracy."""
FIRST = (
    "dataset", "mechanism", "mechanism.eps", "learner.loss", "model", "learner", "pretrain",
    "budget",
)  # fmt: skip
"""Keys that others follow from, in the order in which a name mentions them."""
BARE = ("loss", "model")
"""Keys whose values speak for themselves."""


def sweep_frame(records: list[Record]) -> pd.DataFrame:
    """Returns one row per point of the sweep, averaged over seeds.

    Columns: panel, series, mechanism, x_name, x, accuracy and error (fractions), seeds, bayes,
    n_train, epochs, trials, and what a caption or a table needs beside.
    `error` is the standard error over seeds, or over trials where a point has one seed.
    """
    x_name = _x_axis(records)
    panels = _panels(records, x_name)
    series = _series(records, panels, x_name)
    rows = [
        {
            "panel": panel,
            "series": line,
            "mechanism": record["mechanism"],
            "x": _x(record, x_name),
            "accuracy": record["accuracy"],
            "accuracy_sem": record.get("accuracy_sem"),
            "bayes": record.get("bayes_accuracy"),
            "trust": record["trust"],
            "private": not is_heuristic(record),
            "agreement": record.get("released_agreement"),
            "draws": draws_of(record),
        }
        | {key: record.get(key) for key in ("n_train", "epochs", "trials")}
        for record, panel, line in zip(records, panels, series, strict=True)
    ]
    points = []
    for _, same in pd.DataFrame(rows).groupby(["panel", "series", "x"], sort=False):
        points.append(_over_seeds(same.to_dict("records"), "accuracy") | {"x_name": x_name})
    return without_zeros(pd.DataFrame(points).drop(columns=["accuracy_sem", "draws"]))


def risk_frame(records: list[Record], score: str) -> pd.DataFrame:
    """Returns one row per point of a sweep, averaged over seeds.

    Columns: dataset, mechanism and what else tells rows apart, trust, eps, one of `RISKS`, its
    error as in `sweep_frame`, seeds.
    """
    own = [
        _without(record["identity"], _budgets(record["identity"])) | {"eps": float(record["eps"])}
        for record in records
    ]
    named = ("dataset", "mechanism")
    names = _short([*named, *(key for key in _telling(own) if key not in (*named, "eps"))])
    points = defaultdict(list)
    for record, left in zip(records, own, strict=True):
        points[json.dumps(left)].append((record, left))
    rows = []
    for same in points.values():
        left = same[0][1]
        shown = {n: _spelled(left[key]) if key in left else "default" for key, n in names.items()}
        point = _over_seeds([record for record, _ in same], score)
        measured = {key: point[key] for key in ("trust", "eps", score, "error", "seeds", OLDER)}
        rows.append(shown | measured)
    return without_zeros(pd.DataFrame(rows))


def risk_table(frame: pd.DataFrame, score: str) -> str:
    """Returns Markdown: a row per point of `risk_frame`."""
    shown = frame.assign(
        **{score: [f"{mean:.4g}" for mean in frame[score]]},
        error=["-" if pd.isna(error) else f"{error:.2g}" for error in frame.error],
    )
    shown = shown.drop(columns=OLDER, errors="ignore")
    names = {score: RISKS[score], "error": "± (standard error)"}
    table = shown.rename(columns=names).to_markdown(index=False)
    return "\n\n".join([table, *left_out(frame)])


def _over_seeds(same: Sequence[Record], score: str) -> Record:
    """Returns what differs in the seed alone as one: mean score, its standard error, seeds, older.

    `older` counts runs that are left out (see `reports.draws`).
    """
    kept = newest(same)
    values = np.array([record[score] for record in kept])
    seeds = len(values)
    sem = values.std(ddof=1) / math.sqrt(seeds) if seeds > 1 else kept[0].get(f"{score}_sem")
    older = len(same) - seeds
    return kept[0] | {score: values.mean(), "error": sem, "seeds": seeds, OLDER: older}


def sweep_table(frame: pd.DataFrame) -> str:
    """Returns Markdown: a row per series, a column per x, accuracy in percent ± standard error.

    What has no guarantee stands in a table of its own: no column holds it beside private methods.
    """
    x_name = X_LABELS.get(frame.x_name.iloc[0], frame.x_name.iloc[0])
    blocks = []
    for panel, points in frame[frame.private].groupby("panel", sort=False):
        columns = sorted(set(points.x[~is_free(points)])) or [math.inf]
        rows = {}
        for _, line in points.groupby("series", sort=False):
            at = {x: _cell(point) for x, point in zip(line.x, line.to_dict("records"), strict=True)}
            everywhere = at.get(math.inf, "-") if line.mechanism.iloc[0] == "none" else "-"
            rows[series_name(line)] = [at.get(x, everywhere) for x in columns]
        if points.bayes.notna().any():
            limit = points.dropna(subset="bayes").groupby("x").bayes.first()
            rows["Bayes limit"] = [f"{100 * limit[x]:.2f}" if x in limit else "-" for x in columns]
        headings = [f"{x:g}" for x in columns]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=headings)
        caption = f"{panel}: accuracy in percent ± standard error"
        blocks.append(f"{caption}\n\n{markdown_table(table, name=x_name)}")
    for panel, points in frame[~frame.private].groupby("panel", sort=False):
        table = pd.DataFrame(
            {
                NO_GUARANTEE: series_name(points.iloc[[number]]),
                x_name: f"{point['x']:g}",
                "accuracy": _cell(point),
                "response accuracy": f"{100 * point['agreement']:.2f}",
            }
            for number, point in enumerate(points.to_dict("records"))
        )
        caption = f"{panel}: {NO_GUARANTEE}; in percent ± standard error"
        blocks.append(f"{caption}\n\n{markdown_table(table)}")
    return "\n\n".join([*blocks, *left_out(frame)])


def _cell(point: dict[str, Any]) -> str:
    sem = point["error"]
    spread = f" ± {100 * sem:.2f}" if sem is not None and math.isfinite(sem) else ""
    return f"{100 * point['accuracy']:.2f}{spread}"


def _x_axis(records: list[Record]) -> str:
    """Returns what varies: the budget if it does, else the number of classes of a data set."""
    budgets = {record["eps"] for record in records if math.isfinite(float(record["eps"]))}
    classes = {(r["dataset"], r["identity"].get("dataset.num_classes")) for r in records}
    varied = len(classes) > len({record["dataset"] for record in records})
    return "dataset.num_classes" if len(budgets) <= 1 and varied else "eps"


def _x(record: Record, x_name: str) -> float:
    return float(record["eps"] if x_name == "eps" else record["identity"][x_name])


def _panels(records: list[Record], x_name: str) -> list[str]:
    """Returns for each record its data set, all that differs in it, and eps where there is one."""
    keys = {}
    for name in {record["dataset"] for record in records}:
        varying = _varying([r["identity"] for r in records if r["dataset"] == name])
        keys[name] = [k for k in varying if k.split(".")[0] == "dataset" and k != x_name]
    eps = {float(r["eps"]) for r in records if r["mechanism"] != "none" and not is_heuristic(r)}
    fixed = [f"eps={next(iter(eps)):g}"] if len(eps) == 1 else []
    panels = []
    for name, identity in ((record["dataset"], record["identity"]) for record in records):
        own = [key for key in keys[name] if key in identity]
        own = [f"{key.removeprefix('dataset.')}={_spelled(identity[key])}" for key in own]
        panels.append(", ".join([data_name_of(name), *own, *fixed]))
    return panels


def _series(records: list[Record], panels: list[str], x_name: str) -> list[str]:
    """Returns for each record its mechanism and what else tells that one's lines apart there."""
    lines = defaultdict(list)
    for number, (record, panel) in enumerate(zip(records, panels, strict=True)):
        lines[panel, record["mechanism"]].append(number)
    names = [record["mechanism"] for record in records]
    for numbers in lines.values():
        own = []
        for number in numbers:
            identity = records[number]["identity"]
            data = {key for key in identity if key.split(".")[0] == "dataset"}
            # If x is not eps, eps=inf may stand beside the one finite eps: the name must say which.
            on_x = _budgets(identity) if x_name == "eps" else set()
            own.append(_without(identity, data | on_x))
        short = _short(_telling(own))
        for number, left in zip(numbers, own, strict=True):
            for key, name in short.items():
                if key in left:
                    said = _spelled(left[key])
                    names[number] += f", {said}" if name in BARE else f", {name}={said}"
    return names


def _budgets(identity: dict[str, Any]) -> set[str]:
    """Returns the budget's key, and those of a learner that follow it."""
    eps = identity.get("mechanism.eps")
    return {key for key, value in identity.items() if key.endswith(".eps") and value == eps}


def _without(identity: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    return {key: value for key, value in identity.items() if key not in keys | {"seed"}}


def _varying(identities: list[dict[str, Any]]) -> list[str]:
    """Returns the keys with several values: what others follow from first, what has parts last."""
    keys = {key for identity in identities for key in identity}
    values = {key: {_value(each, key) for each in identities} for key in keys}

    def place(key: str) -> tuple[int, bool, str]:
        is_list = any(text.startswith("[[") for text in values[key])
        is_class = any(other.startswith(f"{key}.") for other in keys)
        return FIRST.index(key) if key in FIRST else len(FIRST), is_list or is_class, key

    return sorted((key for key in keys if len(values[key]) > 1), key=place)


def _value(identity: dict[str, Any], key: str) -> str:
    return json.dumps([identity[key]] if key in identity else [])


def _telling(identities: list[dict[str, Any]]) -> list[str]:
    """Returns few keys that tell apart all that differ: none of those that a choice implies."""
    keys: list[str] = []
    found = 1
    for key in _varying(identities):
        told = {tuple(_value(each, known) for known in (*keys, key)) for each in identities}
        if len(told) > found:
            keys, found = [*keys, key], len(told)
    return keys


def _short(keys: Sequence[str]) -> dict[str, str]:
    """Returns each key without its groups, unless two would be alike or like the budget's."""
    last = Counter(key.split(".")[-1] for key in {*keys, "mechanism.eps"})
    return {key: key if last[key.split(".")[-1]] > 1 else key.split(".")[-1] for key in keys}


def _spelled(value: Any) -> str:
    """Returns a value of an identity as text without commas, which stand between keys."""
    if isinstance(value, dict):
        own = " ".join(f"{key}={_spelled(v)}" for key, v in value.items() if key != "_target_")
        return value.get("_target_", "") + f"({own})" * bool(own)
    if isinstance(value, list):
        return f"[{' '.join(map(_spelled, value))}]"
    return "null" if value is None else str(value)
