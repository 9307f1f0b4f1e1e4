"""Table I of theoretical_limits: predicted and measured exponents of the excess risk.

Runs are put together to series over N, eps or both; a series has one slope of log risk.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import Experiment, cells_of
from labeldp_bench.learners.averages import Problem, exponents, lower_bound
from labeldp_bench.records.record import Record, Records
from labeldp_bench.reports.rendering import Part, number_text
from labeldp_bench.reports.statistics import from_seeds
from papers.tables import Table, records_of

CENTRAL = ("exponential_cubes", "cube_means", "clipped_cube_means")
KINDS = {
    "dataset.n_train": "N",
    "eps": "eps",
    "learner.rule_eps": "eps",
    "dataset.num_classes": "K",
}
"""{key of a block's grid: what the series is taken over}."""
NEGLIGIBLE = 1.0
"""From this eps on the term that central privacy adds is below the first one at every N here."""
TASKS = {
    "classification": "classification",
    "uniform": "regression, bounded",
    "pareto": "regression, heavy tails",
    "student": "regression, symmetric tails",
}
USUAL = {"beta": 0.5, "gamma": 1.0}
"""What a name leaves out."""
THEOREMS = {"classification": ("1", "3"), "uniform": ("5", "7")}
"""{kind of data: the theorems with the local and the central lower bound}; of tails 9 and 11."""
PROTECTION = {
    "none": "no privacy",
    "local": "local, labels",
    "local_full": "local, all",
    "central": "central, labels",
}
DRAWS = 4000
"""Of the parametric bootstrap of a slope."""


@dataclass
class Series:
    """The cells of one slope, which share all but N, eps or K.

    Attributes:
        kind: `N`, `eps`, `along` (eps = c N^-s) or `K`.
        cells: [(x, cell)].
    """

    kind: str
    cells: list[tuple[float, Cell]] = field(default_factory=list)

    @property
    def first(self) -> Cell:
        """Any of its cells."""
        return self.cells[0][1]

    @property
    def data(self) -> dict[str, Any]:
        """The settings of its data; of a series over N or K those of the first cell."""
        return self.first.config["dataset"]

    @property
    def mechanism(self) -> str:
        """Its name."""
        return str(self.first.identity["mechanism"])

    @property
    def target_seed(self) -> int:
        """Which function was drawn; 0 has the row, others show how much it depends on that."""
        return int(self.data["target_seed"])

    @property
    def trust(self) -> str:
        """The trust model whose rate applies, a key of `figures.TRUSTS`."""
        if self.mechanism in ("none", "local_full"):
            return self.mechanism
        return "central" if self.mechanism.removeprefix("full_") in CENTRAL else "local"

    @property
    def task(self) -> str:
        """Kind of data, for people."""
        settings = [f"d={self.data['dimension']}"] if self.data["dimension"] > 1 else []
        for key, usual in USUAL.items():
            if self.data.get(key, usual) != usual:
                settings.append(f"{key}={self.data[key]:g}")
        kind = TASKS[self.data.get("noise", "classification")]
        return ", ".join([kind, *([] if self.is_rough else ["smooth target"]), *settings])

    @property
    def name(self) -> str:
        """The cell of table I, and the mechanism and model that we run for it."""
        is_full = self.mechanism.startswith("full_")
        protection = "central, all" if is_full else PROTECTION[self.trust]
        # The constant is part of the identity where it is not that of the paper.
        constant = self.first.identity.get("mechanism.constant")
        what = f"{self.mechanism} ({constant})" if constant else self.mechanism
        return f"{self.task} | {protection} | {what}, {self.first.identity['model']}"

    @property
    def companion(self) -> bool:
        """Whether it only serves another series, as its risk without privacy at the same h."""
        return self.mechanism == "none" and "learner.rule" in self.first.identity

    @property
    def is_rough(self) -> bool:
        """Whether the target is as rough as its exponent says, at all scales in use."""
        return bool(self.data["target"] != "smooth")

    @property
    def is_symmetric(self) -> bool:
        """Whether its heavy tails cancel the bias of clipping, so that the rate does not bind."""
        return bool(self.data.get("noise") == "student")

    @property
    def shrink(self) -> float:
        """The power s of eps = c N^-s."""
        cells = [cell for _, cell in self.cells]
        n = np.log([cell.config["dataset"]["n_train"] for cell in cells])
        return float(-np.polyfit(n, np.log([eps_of(cell) for cell in cells]), 1)[0])

    @property
    def against(self) -> str:
        """What the slope is taken against, for people."""
        eps = eps_of(self.first)
        if self.kind == "eps":
            return f"eps at N={self.data['n_train']:,}"
        if self.kind == "along":
            return f"N along eps=c N^-{self.shrink:.2g}"
        return self.kind + ("" if math.isinf(eps) else f" at eps={eps:g}")

    def problem(self, cell: Cell) -> Problem:
        """Returns what decides the rate of one of its cells."""
        data = cell.config["dataset"]
        return Problem(
            task="classification" if "num_classes" in data else "regression",
            trust=self.trust,
            num_examples=data["n_train"],
            eps=eps_of(cell),
            dimension=data["dimension"],
            beta=data["beta"],
            gamma=data.get("gamma", 1.0),
            moment=cell.config["learner"]["moment"],
            num_classes=data.get("num_classes", 2),
        )

    @property
    def theorem(self) -> str:
        """The number of the theorem with the lower bound; `cited` if the paper only cites one."""
        local, central = THEOREMS.get(self.data.get("noise", "classification"), ("9", "11"))
        return {"local": local, "central": central}.get(self.trust, "cited")

    def predicted(self) -> float:
        """Returns the exponent of table I; NaN over K, where it has none."""
        problem = self.problem(self.first)
        if self.kind == "K":
            return math.nan
        if self.kind == "eps":
            return exponents(problem)[1]
        if self.kind == "along":
            in_n, in_eps = exponents(problem)
            return in_n - self.shrink * in_eps  # eps = c N^-shrink
        if self.trust == "central" and problem.eps >= NEGLIGIBLE:
            problem = replace(problem, trust="none")
        return exponents(problem)[0]


def is_theory(cell: Cell) -> bool:
    """Returns whether a cell has the rule's own tuning."""
    return not {"learner.factor", "learner.clip_factor"} & set(cell.identity)


def eps_of(cell: Cell) -> float:
    """Returns eps of a cell, or the one that its rule assumes; infinity without either."""
    return float(cell.identity.get("learner.rule_eps", cell.identity.get("mechanism.eps", "inf")))


def _distribution(series: Series, records: Records) -> int:
    """Returns the newest distribution of the releases of a series's runs; 0 without any."""
    found = records_of([cell for _, cell in series.cells if is_theory(cell)], records)
    return max((record["distribution"] for record in found), default=0)


def read_series(experiment: Experiment) -> list[Series]:
    """Returns the series of an experiment's blocks.

    A block with a grid over N, eps or K is a series of each drawn function; blocks that fix both N
    and eps and agree in the rest are one series along eps = c N^-s.
    """
    found: dict[tuple[str, int], Series] = {}
    for number, block in enumerate(experiment.blocks or []):
        grid = block.get("grid", {})
        key, kind = str(number), next((kind for key, kind in KINDS.items() if key in grid), "along")
        if kind == "along":
            fixed = block["set"].items()
            key = f"along {sorted((k, v) for k, v in fixed if KINDS.get(k) not in ('N', 'eps'))}"
        for cell in cells_of([block], {}):
            data = cell.config["dataset"]
            series = found.setdefault((key, data["target_seed"]), Series(kind))
            x = {"eps": eps_of(cell), "K": data.get("num_classes")}.get(kind, data["n_train"])
            series.cells.append((float(x), cell))
    return list(found.values())


class Slope(NamedTuple):
    """A least-squares slope on log-log axes and its 95 % interval."""

    measured: float
    low: float
    high: float


def fit_slope(
    x: Sequence[float], risks: Sequence[Sequence[float]], errors: Sequence[Sequence[float]]
) -> Slope:
    """Returns the slope of log risk against log x; of several tunings the best at each point.

    The interval is a parametric bootstrap: every mean risk is drawn from a normal distribution with
    its standard error over trials, then the best tuning is chosen and the slope fitted again. It
    covers noise of the trials, not the curvature of a finite range.

    Args:
        x: at least two different values, > 0.
        risks: of each x the mean risk of each tuning.
        errors: their standard errors.

    >>> fit_slope([1, 10, 100], [[1.0], [0.1], [0.01]], [[0.0], [0.0], [0.0]]).measured
    -1.0
    """
    log_x = np.log(np.asarray(x, dtype=float))
    weights = (log_x - log_x.mean()) / np.square(log_x - log_x.mean()).sum()
    # A tuning that a point lacks has an infinite risk, so that it is never the best.
    table = np.array(list(zip_longest(*risks, fillvalue=np.inf))).T
    sems = np.array(list(zip_longest(*errors, fillvalue=0.0))).T
    noise = np.random.default_rng(0).standard_normal((DRAWS, *table.shape))
    drawn = np.maximum(table + sems * noise, table / 10)
    slopes = np.log(drawn.min(2)) @ weights
    low, high = np.quantile(slopes, [0.025, 0.975])
    return Slope(round(float(np.log(table.min(1)) @ weights), 12), float(low), float(high))


COLUMNS = (
    "cell", "against", "tuning", "predicted", "measured", "low", "high", "agrees", "why",
    "least_bias_share", "least_variance_share", "risk_at_eps_inf", "points", "cells", "n",
    "functions", "over_functions", "over_functions_half_width",
    "theorem", "bound_slope", "least_risk_over_bound", "most_risk_over_bound",
)  # fmt: skip

CAPTION = (
    "Exponents of the excess risk: slopes of log risk on data whose law is known, with 95 % "
    "intervals (bootstrap from the standard errors over trials, 200 in one dimension, 50 or 25 in "
    "most others, at one drawn function), beside those of the theorems. *lower bound*: the "
    "theorem's, at the same N and eps, with 1 for its constants, of which the paper states none; "
    "all its terms count, so it bends where two of them are close (*cited*: the paper only cites "
    "it). *risk / bound*: the least and the largest; constant where the rate is attained. "
    "*theory*: h, k and T by the theorems' rules, constants fixed once on a pilot seed. *best*: "
    "the best of a grid around it at every point, chosen by the known truth. *agrees*: inside the "
    "interval, or within {tolerance:g}, our allowance for a finite range; not asked of contrasts. "
    "Targets are rough but for one (docs/theory.md). *risk at eps=inf*: the largest share of the "
    "risk that is there without privacy at the same h, for terms that privacy adds. *over drawn "
    "functions*: mean slope and half the width of its 95 % t interval over several drawn functions."
)


@dataclass(frozen=True)
class ExponentTable(Table):
    """One row per series and tuning; `CAPTION` says what the tunings are.

    Attributes:
        tolerance: how far from the predicted exponent a slope may be outside its interval, for the
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
            "theorem": series.theorem,
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
        row |= fit_slope(places, risks, errors)._asdict()
        bounds = {x: lower_bound(series.problem(cell)) for x, cell in series.cells}
        exact = fit_slope(places, [[bounds[x]] for x in places], [[0.0]] * len(places))
        ratios = [min(risk) / bounds[x] for x, risk in zip(places, risks, strict=True)]
        row |= {"bound_slope": exact.measured + 0.0}  # not -0.0
        row |= {"least_risk_over_bound": min(ratios), "most_risk_over_bound": max(ratios)}
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
        """Returns the mean slope over all drawn functions of which every run is done.

        Of those whose releases have the newest distribution, as in `statistics.newest`.
        """
        slopes = {0: row["measured"]} if "measured" in row else {}
        laws = {0: _distribution(series, records)}
        for other in self.series:
            if other.target_seed and (other.name, other.against) == (series.name, series.against):
                found = self._row(other, "theory", records, {})
                if found["n"] == found["cells"]:
                    slopes[other.target_seed] = found["measured"]
                    laws[other.target_seed] = _distribution(other, records)
        slopes = {seed: slope for seed, slope in slopes.items() if laws[seed] == max(laws.values())}
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
            "lower bound, slope over the same points": _bounds(rows),
            "risk / bound": _ratios(rows),
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


def _bounds(rows: pd.DataFrame) -> list[str]:
    """Returns the slope of each lower bound, and the theorem."""
    names = rows.theorem.where(rows.theorem == "cited", "theorem " + rows.theorem)
    found = zip(rows.bound_slope, names, strict=True)
    return ["" if math.isnan(slope) else f"{slope:.3f}, {name}" for slope, name in found]


def _ratios(rows: pd.DataFrame) -> list[str]:
    """Returns the least and the largest measured risk in units of the lower bound."""
    pairs = zip(rows.least_risk_over_bound, rows.most_risk_over_bound, strict=True)
    return ["" if math.isnan(low) else f"{low:.2g} to {high:.2g}" for low, high in pairs]


def _percent(value: float) -> str:
    return number_text(100 * value, "{:.0f} %", unknown="")


def _over_functions(rows: pd.DataFrame) -> list[str]:
    """Returns the mean slope over functions, its uncertainty, and how many functions."""
    found = zip(rows.over_functions, rows.over_functions_half_width, rows.functions, strict=True)
    return ["" if math.isnan(x) else f"{x:.3f} ± {half:.3f} ({n:.0f})" for x, half, n in found]


def _intervals(rows: pd.DataFrame) -> list[str]:
    triples = zip(rows.measured, rows.low, rows.high, strict=True)
    return ["" if math.isnan(x) else f"{x:.3f} [{low:.3f}, {high:.3f}]" for x, low, high in triples]
