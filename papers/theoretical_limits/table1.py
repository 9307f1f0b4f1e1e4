"""Table I of theoretical_limits: predicted and measured exponents of the excess risk."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.rendering import Part, number_text
from labeldp_bench.reports.statistics import from_seeds
from papers.tables import Table, records_of
from papers.theoretical_limits.series import Series, eps_of, fit_slope, is_theory, read_series

COLUMNS = [
    "cell",
    "against",
    "tuning",
    "predicted",
    "measured",
    "low",
    "high",
    "agrees",
    "why",
    "least_bias_share",
    "least_variance_share",
    "risk_at_eps_inf",
    "points",
    "cells",
    "n",
    "functions",
    "over_functions",
    "over_functions_half_width",
]

CAPTION = (
    "Exponents of the excess risk: slopes of log risk on data whose law is known, with 95 % "
    "intervals (bootstrap from the standard errors of 200 trials, at one drawn function), beside "
    "those of the theorems. "
    "*theory*: h, k and T by the theorems' rules, constants fixed once on a pilot seed. *best*: "
    "the best of a grid around it at every point, chosen by the known truth. *agrees*: inside the "
    "interval, or within {tolerance:g}, our allowance for a finite range; not asked of contrasts. "
    "Targets are rough but for one (docs/theory.md). *risk at eps=inf*: the largest share of the "
    "risk that is there without privacy at the same h, for terms that privacy adds. *over drawn "
    "functions*: mean slope and half the width of its 95 % t interval over several drawn functions."
)


@dataclass(frozen=True, kw_only=True)
class ExponentTable(Table):
    """One row per series and tuning; `CAPTION` says what the tunings are.

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

    @cached_property
    def drawn(self) -> list[Series]:
        """The series that have rows: of the first drawn function, and no companions."""
        return [each for each in self.series if not each.companion and each.target_seed == 0]

    def rows(self, records: Records) -> pd.DataFrame:
        """Returns one row per (cell, against, tuning); measured is missing until two x are done.

        `risk_at_eps_inf`: the largest share of the risk that is there without privacy at the same
        h. Shares are the least over the series; of classification see `risk.RiskTally`.
        """
        free = {
            (series.task, cell.config["dataset"]["n_train"], x): records[cell.config_hash]
            for series in self.series
            if series.companion
            for x, cell in series.cells
            if cell.config_hash in records
        }
        rows = []
        for series in self.drawn:
            row = self._row(series, "theory", records, free)
            rows.append(row | self._over_functions(series, row, records))
            if not all(is_theory(cell) for _, cell in series.cells):
                rows.append(self._row(series, "best", records, free))
        return pd.DataFrame(rows, columns=COLUMNS)

    def _row(
        self,
        series: Series,
        tuning: str,
        records: Records,
        free: dict[tuple[str, int, float], Record],
    ) -> dict[str, Any]:
        """Returns the row of one tuning; `free`: {(task, N, eps): record without privacy}."""
        wanted = [pair for pair in series.cells if tuning == "best" or is_theory(pair[1])]
        grids: dict[float, list[Cell]] = defaultdict(list)
        for x, cell in wanted:
            grids[x].append(cell)
        done = {x: records_of(grid, records) for x, grid in grids.items()}
        # A part of the grid does not tell the best.
        needed = {x: len(grid) if tuning == "best" else 1 for x, grid in grids.items()}
        at = {x: found for x, found in done.items() if len(found) >= needed[x]}
        row: dict[str, Any] = {
            "cell": series.name,
            "against": series.against,
            "tuning": tuning,
            "predicted": series.predicted(),
            "points": len(at),
            "cells": len(wanted),
            "n": sum(map(len, done.values())),
        }
        if len(at) < 2:
            return row
        places = sorted(at)
        risks, errors = (
            [[record[key] for record in at[x]] for x in places]
            for key in ("excess_risk", "excess_risk_sem")
        )
        row |= asdict(fit_slope(places, risks, errors))
        if tuning == "theory":
            shares = [_bias_share(at[x][0]) for x in places]
            row |= {"least_bias_share": min(shares), "least_variance_share": 1 - max(shares)}
            floors = [
                free[key]["excess_risk"] / at[x][0]["excess_risk"]
                for x, cell in wanted
                if (key := (series.task, cell.config["dataset"]["n_train"], eps_of(cell))) in free
                and x in at
            ]
            row["risk_at_eps_inf"] = max(floors, default=math.nan)
        agrees, why = self._verdict(series, row)
        return row | {"agrees": agrees, "why": why}

    def _over_functions(
        self, series: Series, row: dict[str, Any], records: Records
    ) -> dict[str, Any]:
        """Returns the mean slope over all drawn functions of which every run is done."""
        slopes = {0: row["measured"]} if "measured" in row else {}
        for other in self.series:
            if other.target_seed and (other.name, other.against) == (series.name, series.against):
                found = self._row(other, "theory", records, {})
                if found["n"] == found["cells"]:
                    slopes[other.target_seed] = found["measured"]
        if len(slopes) < 2:
            return {}
        mean = from_seeds(slopes)
        return {
            "functions": len(slopes),
            "over_functions": mean.value,
            "over_functions_half_width": mean.half_width,
        }

    def _verdict(self, series: Series, row: dict[str, Any]) -> tuple[str, str]:
        """Returns whether a slope agrees with its theorem, empty where that is not asked; why."""
        gap = row["measured"] - row["predicted"]
        least = min(row.get("least_bias_share", 0.0), row.get("least_variance_share", 0.0))
        if math.isnan(gap):
            return "", "no exponent is stated"
        if not series.is_rough and least < self.least_share:
            return "", "smooth target, and one of bias and variance is small"
        if series.is_symmetric:
            return "", "contrast: symmetric tails cancel the bias of clipping"
        if row["low"] <= row["predicted"] <= row["high"]:
            return "yes", "in the interval"
        if abs(gap) <= self.tolerance:
            return "yes", "within tolerance"
        return "no", f"{'steeper' if gap < 0 else 'flatter'} than predicted by {abs(gap):.2f}"

    def parts(self, rows: pd.DataFrame) -> list[Part]:
        """Returns the page: what is predicted, measured and meant by it."""
        bias, variance = (
            rows[f"least_{part}_share"].map(_percent) for part in ("bias", "variance")
        )
        columns = {
            "cell of table I, mechanism": rows.cell.str.replace(" | ", ", ", regex=False),
            "slope against": rows.against,
            "tuning": rows.tuning,
            "predicted": rows.predicted.map(_number),
            "measured": _intervals(rows),
            "agrees": rows.agrees.astype(object).fillna(""),
            "why": rows.why.astype(object).fillna("no run yet"),
            "over drawn functions": _over_functions(rows),
            "bias, variance at least": (bias + ", " + variance).where(bias != "", ""),
            "risk at eps=inf": rows.risk_at_eps_inf.map(_percent),
        }
        runs = rows.drop_duplicates(["cell", "against"], keep="last")
        return [
            CAPTION.format(tolerance=self.tolerance),
            pd.DataFrame(columns),
            f"{runs.n.sum()} of {runs.cells.sum()} runs of these rows done; the experiment, "
            f"with those behind the last column, has {len(self.experiment.cells())}: "
            f"`{self.experiment.command}`",
        ]


def _bias_share(record: Mapping[str, Any]) -> float:
    """Returns the share of bias in the excess risk; both are estimates, which may pass 0 and 1."""
    return float(min(1.0, max(0.0, record["bias"] / record["excess_risk"])))


def _number(value: float) -> str:
    return number_text(value, "{:.3f}", unknown="")


def _percent(value: float) -> str:
    return number_text(100 * value, "{:.0f} %", unknown="")


def _over_functions(rows: pd.DataFrame) -> list[str]:
    """Returns the mean slope over functions, its uncertainty, and how many functions."""
    found = zip(rows.over_functions, rows.over_functions_half_width, rows.functions, strict=True)
    return ["" if math.isnan(x) else f"{x:.3f} ± {half:.3f} ({n:.0f})" for x, half, n in found]


def _intervals(rows: pd.DataFrame) -> list[str]:
    triples = zip(rows.measured, rows.low, rows.high, strict=True)
    return ["" if math.isnan(x) else f"{x:.3f} [{low:.3f}, {high:.3f}]" for x, low, high in triples]
