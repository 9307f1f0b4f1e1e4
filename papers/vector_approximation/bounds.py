"""Upper bounds of Zhao et al. (2025), vector_approximation, in numbers.

Theorem 2 with (36) for k nearest neighbours on RAPPOR's bits, appendix B.1 for a released label,
(30) for ALIBI's soft label; each as printed and as it should be (docs/theory.md).
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import ncx2

from labeldp_bench.records.record import Record
from labeldp_bench.reports import plotting
from labeldp_bench.reports.rendering import markdown_table, number_text
from labeldp_bench.reports.statistics import score_of
from papers.figures import Axis, PaperFigure, style_axes

DRAWS = 20_000
DELTA = 0.05
"""Of (36); not stated, ours."""
LEAST_RISK = 2e-4
"""Below, a logarithmic axis shows only the noise of the trials."""
CLASSES = (2, 3, 4, 5, 6, 8, 10, 11, 13, 16, 20, 25, 30, 40, 50, 60, 80, 100)
MEASURED = {
    "RAPPOR's excess risk": "rappor",
    "RR keeps": "rr",
    "LP-2ST keeps": "lp_2st",
    "ALIBI's accuracy": "alibi",
}
"""{heading: the mechanism that it is measured of}."""
BLACK: Any = {"color": plotting.BLACK}
STYLES: Any = (BLACK, BLACK | {"ls": "--"}, {"color": plotting.colour_of("alibi")}, {})
"""Of the printed bound, its counterpart, what neither is, and what is measured."""
ROWS = {
    "excess risk": ("Theorem 2, (36)", "without bias term, no bound", "RAPPOR's excess risk"),
    "share of labels kept": ("e^eps/K", "tight", "RR keeps", "LP-2ST keeps"),
    "share of the true class": ("(30)", "corrected", "ALIBI's mass", "ALIBI's accuracy"),
}
"""{a row of the picture: what it shows}."""
COLUMNS = (
    "K", "RAPPOR's excess risk", "Theorem 2, (36)", "without bias term, no bound", "RR keeps",
    "LP-2ST keeps", "e^eps/K", "tight", "ALIBI's mass", "(30)", "(30) divides by 0", "corrected",
    "ALIBI's accuracy",
)  # fmt: skip
CAPTION = (
    "Solid black: bounds as printed. Dashed: in the first row what is left of Theorem 2 "
    "without its bias term, no bound any more; in the second the smallest bound there is, "
    "which RR reaches; in the third (30) as it should be, with the true class counted. Open "
    f"triangles at the lower edge: an excess risk below {LEAST_RISK:g}. Hatched: above 1, "
    "where a bound says nothing. Bars: 95 % t intervals over trials."
)


def retention_bound(eps: float, num_classes: int) -> tuple[float, float]:
    """Returns the largest mean probability of releasing the own label: as printed, and tight.

    Appendix B.1 bounds e^eps / K; summing P(j | i) >= e^-eps P(i | i) over j != i gives
    e^eps / (e^eps + K - 1), which randomised response attains. The mean is over labels that are
    equally likely.

    >>> retention_bound(math.log(3), 3)
    (1.0, 0.6)
    """
    gain = math.exp(eps)
    return round(gain / num_classes, 15), round(gain / (gain + num_classes - 1), 15)


@dataclass(frozen=True)
class RingProblem:
    """RAPPOR's bits and k nearest neighbours on K Gaussians around the circle.

    Attributes:
        eps: > 0.
        num_classes: K >= 2.
        sigma: standard deviation per coordinate.
        num_examples: N.
        k: number of neighbours.
        delta: probability with which Hoeffding's bound may fail at a point.
    """

    eps: float
    num_classes: int
    sigma: float
    num_examples: int
    k: int
    delta: float

    def excess_risk(self, *, with_bias: bool) -> float:
        """Returns the bound of Theorem 2 with (36) on the excess risk, by draws of test points.

        (36) may fail; the probability of that is added, as the mean in (20) needs it. Without the
        bias term the value is smaller, and bounds nothing.
        """
        reach = 2 * self.distance(with_bias=with_bias)
        inside = float((margins(self.num_classes, self.sigma) <= reach).mean())
        fails = self.delta + math.exp(-(1 - math.log(2)) * self.k)
        return reach * inside + fails

    def distance(self, *, with_bias: bool) -> float:
        """Returns Delta_eps of (21) by (36), at the point of the circle where it is least."""
        half = self.eps / 2
        noise = math.sqrt(math.log(2 * self.num_classes / self.delta) / (2 * self.k))
        return noise / math.tanh(half / 2) + with_bias * self.steepness * self.radius

    @property
    def steepness(self) -> float:
        """L: the largest slope of a class probability, halfway between two neighbours far out."""
        return 2 * math.sin(math.pi / self.num_classes) / (4 * self.sigma**2)

    @property
    def radius(self) -> float:
        """r_0 of (32), a ball with 2 k / N of the mass, where it is least on the circle."""
        means = 2 * math.pi * np.arange(self.num_classes) / self.num_classes
        centres = np.linspace(0, math.pi / self.num_classes, 9)  # from a mean to halfway
        apart = (2 * np.sin((means - centres[:, None]) / 2) / self.sigma) ** 2

        def missing(r: float) -> float:
            mass = np.asarray(ncx2.cdf((r / self.sigma) ** 2, 2, apart))
            return float(mass.mean(1).max()) - 2 * self.k / self.num_examples

        return float(brentq(missing, 1e-9, 10))


@cache
def margins(num_classes: int, sigma: float) -> np.ndarray:
    """Returns eta* - eta_s, float64 (DRAWS,), at points drawn from K Gaussians on the circle."""
    rng = np.random.default_rng(0)
    angles = 2 * math.pi * np.arange(num_classes) / num_classes
    means = np.stack([np.cos(angles), np.sin(angles)], 1)
    labels = rng.integers(num_classes, size=DRAWS)
    points = means[labels] + sigma * rng.standard_normal((DRAWS, 2))
    logits = points @ means.T / sigma**2
    top = np.partition(softmax(logits, axis=1), -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


@dataclass(frozen=True)
class SoftLabel:
    """What ALIBI's soft label gives to the true class, means over draws.

    Attributes:
        mass: its probability.
        printed: (30), 1 / (number of wrong classes at or above the true one), at most 1.
        corrected: 1 / (1 + that number).
        empty: share of draws in which (30) divides by 0.
    """

    mass: float
    printed: float
    corrected: float
    empty: float


@cache
def soft_label(eps: float, num_classes: int) -> SoftLabel:
    """Returns the soft label of (29) under a uniform prior, by draws."""
    rng = np.random.default_rng(0)
    scale = 2 / eps
    released = rng.laplace(0, scale, (DRAWS, num_classes))
    released[:, 0] += 1  # the true class
    logits = (np.abs(released) - np.abs(released - 1)) / scale
    soft = np.exp(logits)
    above = (released[:, 1:] >= released[:, :1]).sum(1)
    return SoftLabel(
        mass=float((soft[:, 0] / soft.sum(1)).mean()),
        printed=float((1 / np.maximum(above, 1)).mean()),
        corrected=float((1 / (1 + above)).mean()),
        empty=float((above == 0).mean()),
    )


def bounds_of(problem: RingProblem) -> dict[str, float]:
    """Returns {heading: value} of every bound, and of what ALIBI's soft label is."""
    printed, tight = retention_bound(problem.eps, problem.num_classes)
    soft = soft_label(problem.eps, problem.num_classes)
    return {
        "Theorem 2, (36)": problem.excess_risk(with_bias=True),
        "without bias term, no bound": problem.excess_risk(with_bias=False),
        "e^eps/K": printed,
        "tight": tight,
        "ALIBI's mass": soft.mass,
        "(30)": soft.printed,
        "(30) divides by 0": soft.empty,
        "corrected": soft.corrected,
    }


def measured(rows: pd.DataFrame, heading: str) -> pd.DataFrame:
    """Returns mechanism, x, y and error of what is measured beside a bound, from its points."""
    mechanism = MEASURED[heading]
    line = rows[(rows.mechanism == mechanism) & (rows.n > 0)].sort_values("x")
    if "keeps" in heading:
        return line.assign(y=line.records.map(_kept), error=0.0).dropna(subset="y")
    return line.assign(y=line.bayes - line.y) if mechanism == "rappor" else line


def _kept(records: list[Record]) -> float:
    """Returns the share of labels that a release keeps; NaN where the records do not tell."""
    value = score_of(records[0], "response_accuracy")
    return math.nan if value is None else value


def draw_bounds(points: pd.DataFrame, figure: PaperFigure) -> Figure:
    """Returns a column per value of `panels` and a row of `ROWS` per bound."""
    panels = list(_as_shares(points, figure).groupby("panel", sort=False))
    drawn, axes = plotting.new_figure(len(panels), rows=len(ROWS), height=3.3)
    for column, (panel, rows) in zip(axes.T, panels, strict=True):
        column[0].set_title(figure.panel_title(str(panel)))
        curves = pd.DataFrame([bounds_of(_problem(rows, k)) for k in CLASSES], index=CLASSES)
        for place, (name, headings) in zip(column, ROWS.items(), strict=True):
            plotting.log_scale(place, "y")
            style_axes(place, figure.x, figure.y, sorted(rows.x.unique()))
            place.set_ylabel(name)
            for heading, style in zip(headings, STYLES, strict=False):
                if heading in MEASURED:
                    _draw_measured(place, measured(rows, heading), heading)
                else:
                    place.plot(curves[heading], lw=1.4, label=heading, **style)
            top = max(3.0, 1.3 * place.get_ylim()[1])
            place.axhspan(1, top, facecolor="#F2F2F2", edgecolor="#BFBFBF", hatch="///", lw=0)
            place.set_ylim(top=top)
    for line in axes[:, -1]:
        line.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return drawn


def _draw_measured(axes: Axes, line: pd.DataFrame, heading: str) -> None:
    """Draws a line's points; those of a risk too small for the axis as triangles at its edge."""
    colour = plotting.colour_of(MEASURED[heading])
    shown, hidden = line[line.y > LEAST_RISK], line[line.y <= LEAST_RISK]
    if len(hidden):
        axes.set_ylim(bottom=LEAST_RISK)
        style: Any = {"color": colour, "mfc": "white", "clip_on": False}
        edge, label = [LEAST_RISK] * len(hidden), f"{heading}, below {LEAST_RISK:g}"
        axes.plot(hidden.x, edge, "v", label=label, **style)
    if len(shown):
        axes.errorbar(shown.x, shown.y, shown.error, fmt="o", color=colour, label=heading, lw=1.4)


def bounds_beside_measured(points: pd.DataFrame, figure: PaperFigure) -> list[str]:
    """Returns Markdown: every bound at every K beside what is measured."""
    parts = [
        "Bounds beside what is measured, as shares; *in italics*: a bound of at least 1, which "
        "says nothing. Without its bias term Theorem 2 is no bound any more."
    ]
    for panel, rows in _as_shares(points, figure).groupby("panel", sort=False):
        known = {key: measured(rows, key).set_index("x").y.to_dict() for key in MEASURED}
        table = []
        for k in sorted(rows.x.unique()):
            bounds = bounds_of(_problem(rows, int(k)))
            empty = f"{100 * bounds['(30) divides by 0']:.1f} %"
            own = {key: number_text(at.get(k), "{:.3f}") for key, at in known.items()}
            texts = {key: _bound(value) for key, value in bounds.items()} | own
            texts |= {"K": f"{k:g}", "(30) divides by 0": empty}
            table.append({key: texts[key] for key in COLUMNS})
        parts += [f"{figure.panel_title(str(panel))}:", markdown_table(table)]
    return parts


def _bound(value: float) -> str:
    """Returns a bound, in italics where it says nothing."""
    return f"*{value:.2f}*" if value >= 1 else f"{value:.3f}"


def _as_shares(points: pd.DataFrame, figure: PaperFigure) -> pd.DataFrame:
    """Returns the points as bounds are, shares; the page's first table has percent."""
    return points.assign(**{key: points[key] / figure.y.scale for key in ("y", "error", "bayes")})


def _problem(rows: pd.DataFrame, num_classes: int) -> RingProblem:
    """Returns a panel's problem with another number of classes."""
    cell = rows.cell.iloc[0]
    return RingProblem(
        eps=float(cell.setting("mechanism.eps")),
        num_classes=num_classes,
        sigma=float(cell.setting("dataset.sigma")),
        num_examples=cell.setting("dataset.n_train"),
        k=cell.setting("model.k"),
        delta=DELTA,
    )


FIGURE = PaperFigure(
    name="vector_approximation/bounds",
    title=(
        "Bounds of vector_approximation over what is measured on the circle, sigma=0.05, "
        "N=10,000, mean of 1,000 trials"
    ),
    x=Axis("dataset.num_classes", "K", "number of classes K"),
    y=Axis("accuracy", "accuracy", "accuracy, %", scale=100),
    draw=draw_bounds,
    bands=CAPTION,
    panels="eps",
    titles={"1": "eps=1, k=200", "2": "eps=2, k=100"},
    notes=bounds_beside_measured,
)
