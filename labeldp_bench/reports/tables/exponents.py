"""Table I of theoretical_limits: predicted and measured exponents of the excess risk."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.rendering import markdown_table
from labeldp_bench.reports.tables.base import Table
from labeldp_bench.reports.tables.latex import latex_table, replaced
from labeldp_bench.reports.theory.series import Series, budget, is_theory, read_series
from labeldp_bench.reports.theory.slopes import fit_slope

COLUMNS = [
    "cell", "against", "tuning", "predicted", "measured", "low", "high", "agrees", "why",
    "least_bias_share", "least_variance_share", "risk_at_eps_inf", "points", "cells", "n",
]  # fmt: skip

CAPTION = (
    "Exponents of the excess risk: slopes of log risk on data whose law is known, with 95 % "
    "intervals (bootstrap from the standard errors of 200 trials), beside those of the theorems. "
    "*theory*: h, k and T by the theorems' rules, constants fixed once on a pilot seed. *best*: "
    "the best of a grid around it at every point, chosen by the known truth. *agrees*: inside the "
    "interval, or within {tolerance:g}, our allowance for a finite range; not asked of contrasts. "
    "Targets are rough but for one (docs/theory.md). *risk at eps=inf*: the largest share of the "
    "risk that is there without privacy at the same h, for terms that privacy adds."
)


@dataclass(frozen=True, kw_only=True)
class ExponentTable(Table):
    """One row per series and tuning.

    `theory`: the theorem's h, k and T with constants that were fixed on a pilot seed. `best`: at
    each point the tuning of a grid around it with the least risk, chosen by the known truth.

    Attributes:
        tolerance: how far from the predicted exponent a slope may be beside its interval, for the
            curvature of a finite range (ours).
        least_share: what bias and variance must each have of the risk, for a target that is not
            rough.
    """

    tolerance: float = 0.05
    least_share: float = 0.2

    @cached_property
    def series(self) -> list[Series]:
        """The series of the experiment."""
        return read_series(self.experiment)

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns one row per (cell, against, tuning); measured is missing until two x are done.

        `risk_at_eps_inf`: the largest share of the risk that is there without privacy at the same
        h. Shares are the least over the series; of classification see `risk.RiskTally`.
        """
        every = self.series
        free = {
            (series.task, cell.config["dataset"]["n_train"], x): records[cell.config_hash]
            for series in every
            if series.companion
            for x, cell in series.cells
            if cell.config_hash in records
        }
        rows = []
        for series in every:
            if not series.companion:
                tunings = ("theory", "best") if series.has_grid else ("theory",)
                rows += [self._row(series, tuning, records, free) for tuning in tunings]
        return pd.DataFrame(rows, columns=COLUMNS)

    def _row(
        self, series: Series, tuning: str, records: Records, free: dict[Any, Record]
    ) -> dict[str, Any]:
        wanted = [pair for pair in series.cells if tuning == "best" or is_theory(pair[1])]
        at: dict[float, list[Record]] = defaultdict(list)
        for x, cell in wanted:
            if cell.config_hash in records:
                at[x].append(records[cell.config_hash])
        done = sum(len(found) for found in at.values())
        if tuning == "best":  # a part of the grid does not tell the best
            whole = Counter(x for x, _ in wanted)
            at = defaultdict(list, {x: part for x, part in at.items() if len(part) == whole[x]})
        row: dict[str, Any] = {
            "cell": series.name, "against": series.against, "tuning": tuning,
            "predicted": series.predicted(), "points": len(at), "cells": len(wanted),
            "n": done,
        }  # fmt: skip
        if len(at) < 2:
            return row
        places = sorted(at)
        slope = fit_slope(
            places,
            [[record["excess_risk"] for record in at[value]] for value in places],
            [[record["excess_risk_sem"] for record in at[value]] for value in places],
        )
        row |= {"measured": slope.value, "low": slope.low, "high": slope.high}
        if tuning == "theory":
            one = [at[value][0] for value in places]
            shares = [max(0.0, record["bias"]) / record["excess_risk"] for record in one]
            row |= {"least_bias_share": min(shares), "least_variance_share": 1 - max(shares)}
            floors = [
                free[key]["excess_risk"] / at[value][0]["excess_risk"]
                for value, cell in wanted
                if (key := (series.task, cell.config["dataset"]["n_train"], budget(cell))) in free
                and value in at
            ]
            row["risk_at_eps_inf"] = max(floors) if floors else math.nan
        return row | self._verdict(series, row)

    def _verdict(self, series: Series, row: dict[str, Any]) -> dict[str, Any]:
        predicted, measured = row["predicted"], row["measured"]
        if math.isnan(predicted):
            return {"agrees": "", "why": "no exponent is stated"}
        shares = [row.get("least_bias_share", 0.0), row.get("least_variance_share", 0.0)]
        if not series.is_rough and min(shares) < self.least_share:
            return {"agrees": "", "why": "smooth target, and one of bias and variance is small"}
        if series.is_symmetric:
            return {"agrees": "", "why": "contrast: symmetric tails cancel the bias of clipping"}
        inside = row["low"] <= predicted <= row["high"]
        near = abs(measured - predicted) <= self.tolerance
        if inside or near:
            return {"agrees": "yes", "why": "in the interval" if inside else "within tolerance"}
        faster = "steeper" if measured < predicted else "flatter"
        return {
            "agrees": "no",
            "why": f"{faster} than predicted by {abs(measured - predicted):.2f}",
        }

    def parts(self, rows: pd.DataFrame) -> list[str]:
        """Returns the page: what is predicted, measured and meant by it."""
        texts = rows[["agrees", "why"]].astype(object)
        shown = rows.assign(**texts.fillna({"agrees": "", "why": "no run yet"}))
        columns = {
            "cell of table I, mechanism": shown.cell.str.replace(" | ", ", ", regex=False),
            "slope against": shown.against,
            "tuning": shown.tuning,
            "predicted": shown.predicted.map(_number),
            "measured": [_interval(row) for row in rows.to_dict("records")],
            "agrees": shown.agrees,
            "why": shown.why,
            "bias, variance at least": [_shares(row) for row in rows.to_dict("records")],
            "risk at eps=inf": rows.risk_at_eps_inf.map(_percent),
        }
        runs = rows.drop_duplicates(["cell", "against"], keep="last")
        return [
            CAPTION.format(tolerance=self.tolerance),
            markdown_table(columns),
            f"{runs.n.sum()} of {runs.cells.sum()} runs of these rows done; the experiment, "
            f"with those behind the last column, has {len(self.experiment.cells())}: "
            f"`{self.experiment.command}`",
        ]

    def latex(self, rows: pd.DataFrame) -> str:
        """Returns a booktabs table of the theory tuning."""
        block = [
            [row["cell"].replace(" | ", ", "), row["against"], _number(row["predicted"]),
             _interval(row) or "--", row["agrees"] if isinstance(row["agrees"], str) else ""]
            for row in rows[rows.tuning == "theory"].to_dict("records")
        ]  # fmt: skip
        escapes = {"_": "\\_", "^": "\\^{}"}
        block = [[replaced(text, escapes) for text in texts] for texts in block]
        head = ["Cell", "Slope against", "Predicted", "Measured", "Agrees"]
        return latex_table("llrrl", head, [block])


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def _percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.0f} %"


def _interval(row: dict[str, Any]) -> str:
    if math.isnan(row["measured"]):
        return ""
    return f"{row['measured']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def _shares(row: dict[str, Any]) -> str:
    if math.isnan(row["least_bias_share"]):
        return ""
    return f"{_percent(row['least_bias_share'])}, {_percent(row['least_variance_share'])}"
