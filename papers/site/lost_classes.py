"""Methods that now and then lose a whole class: median, worst seed and how often it happens.

The mean of such runs and its interval describe none of them: nine are near 97 %, one near 87 %.
"""

import re
from collections import defaultdict
from statistics import median
from typing import Any

import pandas as pd

from labeldp_bench.experiments.identity import all_but_seed, reference_values
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.naming import data_name_of, setting_of
from labeldp_bench.reports.rendering import markdown_table
from labeldp_bench.reports.statistics import newest
from papers.naming import features_name_of, model_name_of, widths_of

FEWEST_SEEDS, FEWEST_CLASSES = 5, 10
LOST = 0.5
"""A class is lost if its accuracy is below this share of chance, 1 / classes."""
MANY_SEEDS = 20
"""With so many, a method is in the table of docs/findings.md."""
HEADINGS = ("method", "eps", "seeds that lost a class", "median", "worst")
"""Of that table, which is known by them."""


def rows_of(records: Records) -> pd.DataFrame:
    """Returns a row per method, data set and eps: seeds, mean, median, worst (percent), lost.

    `lost` is the share of seeds that lose a class, in [0, 1].

    Args:
        records: with `per_class_accuracy` where it is known; others are left out.
    """
    methods: dict[str, list[Record]] = defaultdict(list)
    for record in records.values():
        if len(record.get("per_class_accuracy") or ()) >= FEWEST_CLASSES and record["private"]:
            methods[all_but_seed(record["identity"])].append(record)
    rows = []
    for runs in map(newest, methods.values()):
        if len(runs) < FEWEST_SEEDS:
            continue
        scores = [100 * float(run["accuracy"]) for run in runs]
        losers = sum(_least(run) < LOST / len(run["per_class_accuracy"]) for run in runs)
        rows.append(
            {key: runs[0].get(key) or "none" for key in ("dataset", "eps", "mechanism", "loss")}
            | {"model": runs[0]["model"], "pretrain": runs[0].get("pretrain") or "none"}
            | {"setting": _setting(runs[0]["identity"]), "budget": runs[0]["budget"]}
            | {"seeds": len(runs), "mean": sum(scores) / len(scores), "median": median(scores)}
            | {"worst": min(scores), "lost": losers / len(runs)}
        )
    order = ["dataset", "eps", "model", "pretrain", "mechanism", "loss", "setting", "budget"]
    frame = pd.DataFrame(rows, columns=[*order, "seeds", "mean", "median", "worst", "lost"])
    return frame.sort_values(order, kind="stable", ignore_index=True)


def with_table(page: str, rows: pd.DataFrame) -> str:
    """Returns docs/findings.md with its table of lost classes made of these rows."""
    lines = []
    for row in rows[rows.seeds >= MANY_SEEDS].to_dict("records"):
        on = f"{data_name_of(row['dataset'])}, {features_name_of(row['pretrain'])}"
        method = ", ".join(filter(None, [model_name_of(row["model"]), row["setting"]]))
        count = f"{row['lost'] * row['seeds']:.0f} of {row['seeds']}"
        scores = (f"{row[key]:.1f}" for key in ("median", "worst"))
        lines.append((f"{on}: {method}", f"{row['eps']:g}", count, *scores))
    table = markdown_table(lines, HEADINGS)
    old = r"^\| *" + r" *\| *".join(HEADINGS) + r" *\|\n(\|.*\n)+"
    replaced, tables = re.subn(old, lambda _: f"{table}\n", page, flags=re.MULTILINE)
    if tables != 1:
        raise ValueError(f"{tables} tables have the headings {', '.join(HEADINGS)}, wanted is 1")
    return replaced


def _least(run: Record) -> float:
    return min(map(float, run["per_class_accuracy"]))


def _setting(identity: dict[str, Any]) -> str:
    """Returns what tells methods of one name apart: settings of the model and the encoder."""
    named = [setting_of(identity), widths_of(identity)]
    if identity.get("model") == "eigenmaps":
        least = identity.get("model.functions", reference_values()["Eigenmaps"]["functions"])
        named.append(f"{least[0]:g} K functions or more")
    if "pretrain.seed" in identity:
        named.append(f"network {identity['pretrain.seed']}")
    if "tuning" in identity:
        named.append("tuned")
    return ", ".join(filter(None, named))
