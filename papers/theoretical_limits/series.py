"""Runs of the theory as series over N, eps or both, and the slopes of their log risk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.experiment import Experiment
from labeldp_bench.experiments.grid import expand
from labeldp_bench.learners.averages import Problem, along, exponents, without_privacy

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
        """The trust model whose rate applies, one of `rates.TRUSTS`."""
        if self.mechanism in ("none", "local_full"):
            return self.mechanism
        return "central" if self.mechanism.removeprefix("full_") in CENTRAL else "local"

    @property
    def task(self) -> str:
        """Kind of data, for people."""
        smooth = "" if self.is_rough else ", smooth target"
        dimension = f", d={self.data['dimension']}" if self.data["dimension"] > 1 else ""
        return TASKS[self.data.get("noise", "classification")] + smooth + dimension

    @property
    def name(self) -> str:
        """The cell of table I with what stands in for it."""
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

    def predicted(self) -> float:
        """Returns the exponent of table I; NaN over K, where it has none."""
        data = self.data
        problem = Problem(
            task="classification" if "num_classes" in data else "regression",
            trust=self.trust,
            num_examples=data["n_train"],
            eps=eps_of(self.first),
            dimension=data["dimension"],
            beta=data["beta"],
            gamma=data.get("gamma", 1.0),
            moment=self.first.config["learner"]["moment"],
            num_classes=data.get("num_classes", 2),
        )
        if self.kind == "K":
            return math.nan
        if self.kind == "eps":
            return exponents(problem)[1]
        if self.kind == "along":
            return along(problem, self.shrink)
        if self.trust == "central" and problem.eps >= NEGLIGIBLE:
            problem = without_privacy(problem)
        return exponents(problem)[0]


def is_theory(cell: Cell) -> bool:
    """Returns whether a cell has the rule's own tuning."""
    return not {"learner.factor", "learner.clip_factor"} & set(cell.identity)


def eps_of(cell: Cell) -> float:
    """Returns eps of a cell, or the one that its rule assumes; infinity without either."""
    return float(cell.identity.get("learner.rule_eps", cell.identity.get("mechanism.eps", "inf")))


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
        for overrides in expand([block], {}):
            cell = compose_cell(overrides)
            data = cell.config["dataset"]
            series = found.setdefault((key, data["target_seed"]), Series(kind))
            x = {"eps": eps_of(cell), "K": data.get("num_classes")}.get(kind, data["n_train"])
            series.cells.append((float(x), cell))
    return list(found.values())


@dataclass(frozen=True)
class Slope:
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
