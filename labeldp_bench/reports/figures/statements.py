"""Whether a paper's statements about its figure are true of our records. Imports no torch."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import pandas as pd

from labeldp_bench.reports.statements_grammar import Check
from labeldp_bench.support.validate import InputError

SURE = 2.0
"""Standard errors that each comparison must clear for a statement to hold."""
CHANCE = 0.05
"""How often a true statement may be called false, over all its comparisons."""


class Estimate(NamedTuple):
    """A value and its standard error, both missing (NaN) without a record."""

    value: float
    error: float

    def minus(self, other: "Estimate") -> "Estimate":
        """Returns the difference; errors are taken as independent."""
        return Estimate(self.value - other.value, math.hypot(self.error, other.error))

    def below(self, bound: float) -> "Estimate":
        """Returns how far the size of this value stays below `bound`."""
        return Estimate(bound - abs(self.value), self.error)

    @property
    def ratio(self) -> float:
        """The value in standard errors; NaN where the error is unknown."""
        if self.error == 0:
            return math.copysign(math.inf, self.value) if self.value else 0.0
        return self.value / self.error


NOTHING = Estimate(math.nan, math.nan)
Series = dict[float | None, Estimate]
"""{x: estimate}; the key None is a level, the same at every x."""
Gaps = Iterator[tuple[str, Estimate]]
"""What is compared, and by how much the check is true: it claims that each is > 0."""


@dataclass(frozen=True)
class Verdict:
    """What the records say of one statement.

    Attributes:
        word: `holds`, `does not hold`, `undecided` or `no data`.
        evidence: the comparison that speaks most against it, and what is missing.
    """

    word: str
    evidence: str


def series_of(points: pd.DataFrame) -> dict[tuple[str, str], Series]:
    """Returns {(panel, line): its series} of a figure's points."""
    series: dict[tuple[str, str], Series] = {}
    for point in points.sort_values("x").itertuples():
        x = None if math.isnan(point.x) else point.x
        series.setdefault((point.panel, point.line), {})[x] = Estimate(point.y, point.error)
    return series


def compare(
    check: Check, here: pd.DataFrame, there: pd.DataFrame, panels: dict[str, str]
) -> list[tuple[str, Estimate]]:
    """Returns every comparison that a check asks for.

    Args:
        check: what is claimed.
        here: the figure's points, as `paper.PaperFigure.points` returns them.
        there: those that the right side is from; the same unless `check.other` names a figure.
        panels: {panel: its title} of those panels of `here` that count.

    Raises:
        InputError: a panel, a line or values of x that a figure does not have.
    """
    ours, theirs = series_of(here), series_of(there)
    gaps = []
    for (panel, title), name in itertools.product(panels.items(), check.left):
        line = {x: y for x, y in _find(ours, panel, name).items() if check.takes(x)}
        if not line:
            raise InputError(f"the figure has no x that {check.operator} {check.bounds} takes")
        rivals = {}
        for rival in check.right or (name,) * bool(check.other):
            # Ranges are compared with every panel there: those of two figures differ.
            elsewhere = [p for p, _ in theirs] if check.relation == "flatter" else [panel]
            for other in dict.fromkeys(elsewhere):
                where = f" ({check.other}{', ' + other if other != panel else ''})"
                rivals[rival + where * bool(check.other)] = _find(theirs, other, rival)
        for what, gap in RELATIONS[check.relation](name, line, rivals, *check.numbers):
            gaps.append((f"{what}, {title}" if len(panels) > 1 else what, gap))
    return gaps


def judge(gaps: list[tuple[str, Estimate]]) -> Verdict:
    """Returns whether every comparison is true.

    Yes, if each clears two standard errors. No, if one is false by as much, and beyond what chance
    does once in 20 among as many comparisons (Bonferroni). Undecided in between, and where records
    are missing or an error is unknown, as it is after a single run. Differences of lines over the
    same trials are surer than this takes them, as their errors go together.
    """
    missing = sum(math.isnan(gap.value) for _, gap in gaps)
    known = [(gap.ratio, what, gap) for what, gap in gaps if not math.isnan(gap.ratio)]
    if missing == len(gaps):
        return Verdict("no data", "")
    notes = [f"{missing} of {len(gaps)} comparisons lack records"] if missing else []
    if len(known) + missing < len(gaps):
        notes.append("standard errors of single runs are unknown")
    if not known:
        return Verdict("undecided", "; ".join(notes))
    ratio, what, gap = min(known)
    evidence = "; ".join([f"{what}: {gap.value:+.2f} ± {gap.error:.2f}", *notes])
    if ratio < min(-SURE, NormalDist().inv_cdf(CHANCE / len(gaps))):
        return Verdict("does not hold", evidence)
    return Verdict("holds" if ratio > SURE and not notes else "undecided", evidence)


def _find(series: dict[tuple[str, str], Series], panel: str, line: str) -> Series:
    if (panel, line) not in series:
        known = ", ".join(f"{name} in {where!r}" for where, name in series)
        raise InputError(f"the figure has no line {line} in panel {panel!r} (it has {known})")
    return series[panel, line]


def _at(series: Series, x: float | None) -> Estimate:
    return series.get(x, series.get(None, NOTHING))


def _range(series: Series) -> Estimate:
    """Returns the largest value minus the smallest; NaN if one is missing."""
    if any(math.isnan(y.value) for y in series.values()):
        return NOTHING
    return max(series.values()).minus(min(series.values()))


def _above(name: str, line: Series, rivals: dict[str, Series], more: float = 0.0) -> Gaps:
    for (rival, theirs), x in itertools.product(rivals.items(), line):
        gap = line[x].minus(_at(theirs, x))
        yield f"{name} - {rival} at {_spell(x)}", Estimate(gap.value - more, gap.error)


def _within(name: str, line: Series, rivals: dict[str, Series], bound: float) -> Gaps:
    for (rival, theirs), x in itertools.product(rivals.items(), line):
        gap = line[x].minus(_at(theirs, x)).below(bound)
        yield f"{bound:g} - gap of {name} and {rival} at {_spell(x)}", gap


def _falls(name: str, line: Series, rivals: dict[str, Series]) -> Gaps:
    for x, following in itertools.pairwise(line):
        yield f"{name} at {_spell(x)} - at {_spell(following)}", line[x].minus(line[following])


def _rises(name: str, line: Series, rivals: dict[str, Series]) -> Gaps:
    for x, following in itertools.pairwise(line):
        yield f"{name} at {_spell(following)} - at {_spell(x)}", line[following].minus(line[x])


def _flat(name: str, line: Series, rivals: dict[str, Series], bound: float) -> Gaps:
    for x, other in itertools.combinations(line, 2):
        gap = line[x].minus(line[other]).below(bound)
        yield f"{bound:g} - gap of {name} between {_spell(x)} and {_spell(other)}", gap


def _highest(name: str, line: Series, rivals: dict[str, Series], low: float, high: float) -> Gaps:
    inside = {x: y for x, y in line.items() if x is not None and low <= x <= high}
    if not inside:
        raise InputError(f"the figure has no x between {low:g} and {high:g}")
    # A value that is missing might be the best.
    lacks = any(math.isnan(y.value) for y in inside.values())
    best = max(inside, key=lambda x: inside[x])
    for x in (x for x in line if x not in inside):
        gap = NOTHING if lacks else line[best].minus(line[x])
        yield f"{name} at {_spell(best)} - at {_spell(x)}", gap


def _flatter(name: str, line: Series, rivals: dict[str, Series]) -> Gaps:
    for rival, theirs in rivals.items():
        yield f"range of {rival} - {name}", _range(theirs).minus(_range(line))


def _spell(x: float | None) -> str:
    return "any x" if x is None else f"{x:g}"


RELATIONS: dict[str, Callable[..., Gaps]] = {
    "above": _above,
    "within": _within,
    "falls": _falls,
    "rises": _rises,
    "flat": _flat,
    "highest": _highest,
    "flatter": _flatter,
}
"""What each relation of checks.PATTERNS compares."""
