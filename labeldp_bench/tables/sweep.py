"""A sweep as numbers and as Markdown: what is averaged, and what tells its lines apart."""

import math
from collections import Counter
from typing import Any

import pandas as pd

from labeldp_bench.cell import NO_GUARANTEE
from labeldp_bench.figures.plotting import data_name_of
from labeldp_bench.figures.sweep import X_LABELS, series_name
from labeldp_bench.records import is_heuristic

RISKS = {"excess_risk": "excess risk", "test_mse": "test MSE"}
"""Fields of records that stand where classes would have an accuracy."""


def sweep_frame(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Returns one row per point of the sweep, averaged over seeds.

    Columns: panel, series, mechanism, x_name, x, accuracy and error (fractions), seeds, bayes,
    n_train, epochs, trials, and what a caption or a table needs beside.
    `error` is the standard error over seeds, or over trials where a point has one seed.
    """
    x_name = _x_axis(records)
    rows = [
        {
            "panel": _panel(record, records, x_name),
            "series": _series(record, records, x_name),
            "mechanism": record["mechanism"],
            "x": _x(record, x_name),
            "accuracy": record["accuracy"],
            "accuracy_sem": record.get("accuracy_sem"),
            "bayes": record.get("bayes_accuracy"),
            "trust": record["trust"],
            "private": not is_heuristic(record),
            "agreement": record.get("released_agreement"),
            "identity": record["identity"],
        }
        | {key: record.get(key) for key in ("n_train", "epochs", "trials")}
        for record in records
    ]
    points = []
    keys = ["panel", "series", "x"]
    for _, same in pd.DataFrame(rows).groupby(keys, sort=False):
        point = same.iloc[0].to_dict()
        seeds = len(same)
        sem = same.accuracy.std() / math.sqrt(seeds) if seeds > 1 else point["accuracy_sem"]
        point |= {"accuracy": same.accuracy.mean(), "error": sem, "seeds": seeds, "x_name": x_name}
        points.append(point)
    return pd.DataFrame(points).drop(columns="accuracy_sem")


def risk_table(records: list[dict[str, Any]], score: str) -> str:
    """Returns Markdown: a row per cell of a sweep, its own keys and one of `RISKS`."""
    keys = [key for key in _varying(records) if key != "seed"]
    last = Counter(key.split(".")[-1] for key in keys)
    names = {key: key if last[key.split(".")[-1]] > 1 else key.split(".")[-1] for key in keys}
    rows = [
        {names[key]: record["identity"].get(key, "default") for key in keys}
        | {
            RISKS[score]: f"{record[score]:.4g}",
            "± (standard error)": _error(record[f"{score}_sem"]),
        }
        for record in records
    ]
    return pd.DataFrame(rows).to_markdown(index=False)


def _error(sem: float | None) -> str:
    return "-" if sem is None else f"{sem:.2g}"


def sweep_table(frame: pd.DataFrame) -> str:
    """Returns Markdown: a row per series, a column per x, accuracy in percent ± standard error.

    What has no guarantee stands in a table of its own: no column holds it beside private methods.
    """
    x_name = X_LABELS.get(frame.x_name.iloc[0], frame.x_name.iloc[0])
    blocks = []
    for panel, points in frame[frame.private].groupby("panel", sort=False):
        columns = sorted(set(points.x[points.mechanism != "none"])) or [math.inf]
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
        table.index.name = x_name
        caption = f"{panel}: accuracy in percent ± standard error"
        blocks.append(f"{caption}\n\n{table.to_markdown(disable_numparse=True)}")
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
        blocks.append(f"{caption}\n\n{table.to_markdown(index=False, disable_numparse=True)}")
    return "\n\n".join(blocks)


def _cell(point: dict[str, Any]) -> str:
    sem = point["error"]
    spread = f" ± {100 * sem:.2f}" if sem is not None and math.isfinite(sem) else ""
    return f"{100 * point['accuracy']:.2f}{spread}"


def _x_axis(records: list[dict[str, Any]]) -> str:
    """Returns what varies: the budget if it does, else the number of classes."""
    budgets = {record["eps"] for record in records if math.isfinite(float(record["eps"]))}
    classes = {record["identity"].get("dataset.num_classes") for record in records}
    return "dataset.num_classes" if len(budgets) <= 1 and len(classes) > 1 else "eps"


def _x(record: dict[str, Any], x_name: str) -> float:
    return float(record["eps"] if x_name == "eps" else record["identity"][x_name])


def _panel(record: dict[str, Any], records: list[dict[str, Any]], x_name: str) -> str:
    same = [other for other in records if other["dataset"] == record["dataset"]]
    keys = [key for key in _varying(same) if key.split(".")[0] == "dataset"]
    keys = [key for key in keys if key not in ("dataset", "dataset.name", x_name)]
    eps = {float(r["eps"]) for r in records if r["mechanism"] != "none" and not is_heuristic(r)}
    fixed = [f"eps={next(iter(eps)):g}"] if len(eps) == 1 else []
    own = [f"{key.split('.')[1]}={record['identity'].get(key)}" for key in keys]
    return ", ".join([data_name_of(record["dataset"]), *own, *fixed])


def _series(record: dict[str, Any], records: list[dict[str, Any]], x_name: str) -> str:
    """Returns the mechanism and what else tells its lines apart."""
    same = [other for other in records if other["mechanism"] == record["mechanism"]]
    # Another axis than eps leaves eps=inf beside the one finite eps.
    skipped = {"seed", "learner.first.eps", "mechanism.eps" if x_name == "eps" else x_name}
    keys = [k for k in _varying(same) if k not in skipped and k.split(".")[0] != "dataset"]
    own = [_spelled(key, record["identity"].get(key)) for key in keys]
    return ", ".join([record["mechanism"], *own])


def _spelled(key: str, value: Any) -> str:
    name = key.split(".")[-1]
    return str(value) if name in ("loss", "model") else f"{name}={value}"


def _varying(records: list[dict[str, Any]]) -> list[str]:
    keys = sorted({key for record in records for key in record["identity"]})
    return [key for key in keys if len({str(r["identity"].get(key)) for r in records}) > 1]
