"""The numbers that PLE prints in its text and nowhere else, beside ours on public features."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.records.published import read_published
from labeldp_bench.records.record import Records
from labeldp_bench.reports.rendering import Part, number_text
from papers.ple.checks import ENHANCED, RIVALS
from papers.ple.figures import FIGURE_2, ON_FEATURES
from papers.tables import Table

CAPTION = """\
What the paper says in its introduction and section 5.2, without a table, and ours. {model} PLE has
no guarantee: no finite eps holds. *Lowest response accuracy*: of the setting whose vectors name
fewest labels. *Gain*: over the better of LP-2ST and ALIBI at that response accuracy (between two
budgets interpolated), as a share of its accuracy. `-`: no run of theirs is on both sides of it."""
WORDS = {
    ("none", "accuracy"): "no privacy: accuracy, %",
    ("ple", "response_accuracy"): "PLE: lowest response accuracy, %",
    ("ple", "accuracy"): "PLE: accuracy there, %",
    ("ple", "relative_gain"): "PLE: gain there, %",
}


@dataclass(frozen=True)
class StatedTable(Table):
    """One row per number and data set."""

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns the printed numbers, at paper budget, and ours, which are on features.

        Columns as those of `AccuracyTable` that `pages.published_numbers` reads; `method` is the
        method and what is measured.
        """
        points = FIGURE_2(**ON_FEATURES).points(records).dropna(subset=["x", "y"])
        ours = {
            (dataset, *what): value
            for dataset, own in points.groupby("panel")
            for what, value in measured(own).items()
        }
        printed = read_published(self.paper)
        rows: list[dict[str, Any]] = []
        for row in printed[printed.table == self.number].to_dict("records"):
            key = row["dataset"], row["method"], row["metric"]
            place = {"dataset": key[0], "method": " ".join(key[1:]), "eps": row["eps"], "class": ""}
            rows.append(place | {"budget": PAPER, "n": 0, "published": row["value"]})
            if key in ours:
                rows.append(place | {"budget": ON_FEATURES["budget"], "n": 1, "ours": ours[key]})
        return pd.DataFrame(rows, columns=[*rows[0], "ours"])

    def parts(self, rows: pd.DataFrame) -> list[Part]:
        """Returns the page: printed and ours."""
        shown = rows.groupby(["dataset", "method"], sort=False)[["published", "ours"]].first()
        lines = [
            [dataset, WORDS[tuple(method.split(" "))], f"{printed:g}", number_text(ours, "{:.2f}")]
            for (dataset, method), printed, ours in shown.itertuples()
        ]
        heads = ["data", "", "paper", "ours (features)"]
        return [CAPTION.format(model=ON_FEATURES["note"]), pd.DataFrame(lines, columns=heads)]


def measured(points: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Returns {(method, metric): ours, in percent} of one data set's points; NaN if unknown."""
    known = {("none", "accuracy"): points.y[points.mechanism == "none"].mean()}
    bare = points[points.line == ENHANCED].sort_values("x")
    if bare.empty:
        return known
    x, y = bare[["x", "y"]].iloc[0]
    best = -math.inf
    for _, line in points[points.mechanism.isin(RIVALS)].sort_values("x").groupby("line"):
        if line.x.min() <= x <= line.x.max():
            best = max(best, float(np.interp(x, line.x, line.y)))
    gain = 100 * (y / best - 1) if best > 0 else math.nan
    return known | {
        ("ple", "response_accuracy"): x,
        ("ple", "accuracy"): y,
        ("ple", "relative_gain"): gain,
    }
