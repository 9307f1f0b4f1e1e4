"""Upper bounds of vector_approximation over measurements; a bound above 1 is hatched."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labeldp_bench.records.record import Record
from labeldp_bench.reports.draws import score_of
from labeldp_bench.reports.figures import plotting
from labeldp_bench.reports.rendering import markdown_table, number_text
from papers.figures.kinds import Kind
from papers.figures.spec import Spec
from papers.vector_approximation.bounds import RingProblem, retention_bound, soft_label

LEAST_RISK = 2e-4
"""Below, a logarithmic axis shows the noise of the trials alone."""
CLASSES = (2, 3, 4, 5, 6, 8, 10, 11, 13, 16, 20, 25, 30, 40, 50, 60, 80, 100)


class Bounds(Kind):
    """Bounds over measurements, with a legend beside."""

    options = ("delta",)
    caption = (
        "Solid black: bounds as printed. Dashed: in the first row what is left of Theorem 2 "
        "without its bias term, no bound any more; in the second the smallest bound there is, "
        "which RR reaches; in the third (30) as it should be, with the true class counted. Open "
        f"triangles at the lower edge: an excess risk below {LEAST_RISK:g}. Hatched: above 1, "
        "where a bound says nothing. Bars: 95 % t intervals over trials."
    )

    def draw(self, points: pd.DataFrame, spec: Spec) -> Figure:
        """Returns a column per value of `panels` and a row per bound.

        Rows: Theorem 2 with (36) over RAPPOR's excess risk; appendix B.1 over the labels that RR
        and LP-2ST keep; (30) over what ALIBI's soft label gives to the true class, and over the
        accuracy that is reached with it.
        """
        panels = list(_as_shares(points, spec).groupby("panel", sort=False))
        figure, axes = plotting.new_figure(len(panels), rows=len(ROWS), height=3.3)
        for column, (panel, rows) in zip(axes.T, panels, strict=True):
            column[0].set_title(spec.panel_title(str(panel)))
            problems = [_problem(rows, spec, num_classes) for num_classes in CLASSES]
            for place, (name, part) in zip(column, ROWS.items(), strict=True):
                plotting.log_scale(place, "y")
                plotting.style_axes(place, spec.x, spec.y, sorted(rows.x.unique()))
                place.set_ylabel(name)
                part(place, problems, rows)
                top = max(3.0, 1.3 * place.get_ylim()[1])
                place.axhspan(1, top, facecolor="#F2F2F2", edgecolor="#BFBFBF", hatch="///", lw=0)
                place.set_ylim(top=top)
        for line in axes[:, -1]:
            line.legend(fontsize=8.5, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
        return figure

    def notes(self, points: pd.DataFrame, spec: Spec) -> list[str]:
        """Returns Markdown: every bound at every K beside what is measured."""
        parts = [
            "Bounds beside what is measured, as shares; *in italics*: a bound of at least 1, which "
            "says nothing. Without its bias term Theorem 2 is no bound any more."
        ]
        for panel, rows in _as_shares(points, spec).groupby("panel", sort=False):
            table = [
                _numbers(_problem(rows, spec, int(k)), rows[rows.x == k])
                for k in sorted(rows.x.unique())
            ]
            parts += [f"{spec.panel_title(str(panel))}:", markdown_table(table)]
        return parts


KIND = Bounds()


def _as_shares(points: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    """Returns the points as bounds are, shares; the page's first table has percent."""
    return points.assign(**{key: points[key] / spec.y.scale for key in ("y", "error", "bayes")})


def _problem(rows: pd.DataFrame, spec: Spec, num_classes: int) -> RingProblem:
    """Returns a panel's problem with another number of classes."""
    cell = rows.cell.iloc[0]
    return RingProblem(
        eps=float(cell.setting("mechanism.eps")),
        num_classes=num_classes,
        sigma=float(cell.setting("dataset.sigma")),
        num_examples=cell.setting("dataset.n_train"),
        k=cell.setting("model.k"),
        delta=float(spec.options["delta"]),
    )


def _theorem(axes: Axes, problems: list[RingProblem], rows: pd.DataFrame) -> None:
    whole = [each.excess_risk(with_bias=True) for each in problems]
    part = [each.excess_risk(with_bias=False) for each in problems]
    _bounds(axes, {"Theorem 2 with (36)": whole, "without its bias term: no bound": part})
    line = _line(rows, "rappor")
    excess = line.bayes - line.y
    shown = excess > LEAST_RISK
    axes.set_ylim(bottom=LEAST_RISK)
    _measured(axes, line[shown], excess[shown], "RAPPOR, measured", line.error[shown])
    hidden = line.x[~shown]
    if len(hidden):
        axes.plot(
            hidden, [LEAST_RISK] * len(hidden), "v", color=plotting.colour_of("rappor"),
            markerfacecolor="white", clip_on=False, label=f"RAPPOR, below {LEAST_RISK:g}",
        )  # fmt: skip


def _scalar(axes: Axes, problems: list[RingProblem], rows: pd.DataFrame) -> None:
    bounds = [retention_bound(each.eps, each.num_classes) for each in problems]
    printed, tight = zip(*bounds, strict=True)
    _bounds(axes, {"B.1: e^eps/K": printed, "tight: e^eps/(e^eps+K-1)": tight})
    for mechanism, name in (("rr", "RR, measured"), ("lp_2st", "LP-2ST, halves, measured")):
        line = _line(rows, mechanism)
        kept = line.records.map(_kept)
        if kept.notna().any():  # else the legend would name what is not there
            _measured(axes, line, kept, name)


def _soft(axes: Axes, problems: list[RingProblem], rows: pd.DataFrame) -> None:
    labels = [soft_label(each.eps, each.num_classes) for each in problems]
    corrected = [each.corrected for each in labels]
    printed = [each.printed for each in labels]
    _bounds(axes, {"(30)": printed, "(30), true class counted": corrected})
    colour = plotting.colour_of("alibi")
    axes.plot(CLASSES, [each.mass for each in labels], color=colour, label="ALIBI's soft label")
    line = _line(rows, "alibi")
    _measured(axes, line, line.y, "its accuracy, measured", line.error)


ROWS = {
    "excess risk": _theorem, "share of labels kept": _scalar, "share of the true class": _soft,
}  # fmt: skip


def _bounds(axes: Axes, curves: dict[str, Sequence[float]]) -> None:
    """Draws the printed bound solid and its counterpart dashed."""
    for (name, curve), style in zip(curves.items(), ("-", "--"), strict=True):
        axes.plot(CLASSES, curve, style, color=plotting.BLACK, lw=1.4, label=name)


def _measured(axes: Axes, line: pd.DataFrame, y: Any, name: str, error: Any = None) -> None:
    if len(line):
        colour = plotting.colour_of(line.mechanism.iloc[0])
        axes.errorbar(line.x, y, error, fmt="o", color=colour, label=name, lw=1.4)


def _kept(records: list[Record]) -> float:
    """Returns the share of labels that a release keeps; NaN where the records do not tell."""
    value = score_of(records[0], "response_accuracy")
    return math.nan if value is None else value


def _line(rows: pd.DataFrame, mechanism: str) -> pd.DataFrame:
    return rows[(rows.mechanism == mechanism) & (rows.n > 0)].sort_values("x")


def _numbers(problem: RingProblem, rows: pd.DataFrame) -> dict[str, str]:
    """Returns the row of one K."""
    at = {point["mechanism"]: point for point in rows.to_dict("records") if point["n"]}
    kept = {name: _kept(point["records"]) for name, point in at.items()}
    printed, tight = retention_bound(problem.eps, problem.num_classes)
    soft = soft_label(problem.eps, problem.num_classes)
    risk = at["rappor"]["bayes"] - at["rappor"]["y"] if "rappor" in at else math.nan
    return {
        "K": str(problem.num_classes),
        "RAPPOR's excess risk": _share(risk),
        "Theorem 2, (36)": _bound(problem.excess_risk(with_bias=True)),
        "without bias term, no bound": _bound(problem.excess_risk(with_bias=False)),
        "RR keeps": _share(kept.get("rr", math.nan)),
        "LP-2ST keeps": _share(kept.get("lp_2st", math.nan)),
        "e^eps/K": _bound(printed),
        "tight": _bound(tight),
        "ALIBI's mass": _share(soft.mass),
        "(30)": _bound(soft.printed),
        "(30) divides by 0": f"{100 * soft.empty:.1f} %",
        "corrected": _bound(soft.corrected),
        "ALIBI's accuracy": _share(at["alibi"]["y"] if "alibi" in at else math.nan),
    }


def _share(value: float) -> str:
    return number_text(value, "{:.3f}")


def _bound(value: float) -> str:
    """Returns a bound, in italics where it says nothing."""
    return f"*{value:.2f}*" if value >= 1 else _share(value)
