"""What a paper's text says of its figure, checked against records. Imports no torch.

A check is one line of YAML; lines and x are called as the figure calls them:

    rappor > rr, alibi for K >= 40                   more, at every such x
    rappor > rr + 2                                  by more than 2, in units of the axis
    rr, rappor > the same in <paper>/figure4         each more than its namesake there
    rappor within 1 of rr, alibi                     at most 1 apart
    rappor falls for K >= 20                         from each x to the next; also: rises
    rappor flat within 5                             no two values more than 5 apart
    blockrr highest between 1.0 and 1.4              no x outside is better than the best inside
    blockrr flatter than blockrr in <paper>/figure2  a smaller range, than in any panel there
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
from scipy.stats import norm

from labeldp_bench.validate import InputError

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
class Check:
    """One line that was read.

    Attributes:
        relation: a key of RELATIONS.
        left: names of lines.
        right: likewise; None where each line is compared with its namesake.
        numbers: those of the relation.
        other: the experiment that the right side is from; None for the same figure.
        operator, bounds: pick values of x; an empty operator takes all.
    """

    relation: str
    left: tuple[str, ...]
    right: tuple[str, ...] | None
    numbers: tuple[float, ...]
    other: str | None
    operator: str
    bounds: tuple[float, ...]

    def takes(self, x: float | None) -> bool:
        """Returns whether the condition picks x."""
        if not self.operator or x is None:
            return True
        if self.operator == "=":
            return x in self.bounds
        return x >= self.bounds[0] if self.operator == ">=" else x <= self.bounds[0]


@dataclass(frozen=True)
class Verdict:
    """What the records say of one statement.

    Attributes:
        word: `holds`, `does not hold`, `undecided` or `no data`.
        evidence: the comparison that speaks most against it, and what is missing.
    """

    word: str
    evidence: str


def read_check(text: str, symbol: str) -> Check:
    """Returns the check that one line spells.

    Args:
        text: as in the docstring of this module.
        symbol: what a condition must call x.

    Raises:
        InputError: a line that spells none.

    >>> read_check("rappor > rr, alibi for K >= 40", "K").right
    ('rr', 'alibi')
    """
    claim, _, condition = text.partition(" for ")
    claim, _, other = claim.partition(" in ")
    matches = {
        relation: re.fullmatch(pattern.replace("#", r"(\d+(?:\.\d+)?)"), claim)
        for relation, (pattern, _) in RELATIONS.items()
    }
    relation, match = next(((name, m) for name, m in matches.items() if m), ("", None))
    if match is None:
        raise InputError(f"cannot read the check {text!r} (statements.py lists what there is)")
    operator, bounds = "", ""
    if condition:
        picks = re.fullmatch(rf"{re.escape(symbol)} (>=|<=|=) (\d[\d., ]*)", condition)
        if not picks:
            raise InputError(f"after `for` comes {symbol} >= 1, <= 1 or = 1, 2; got {condition!r}")
        operator, bounds = picks.groups()
    names = {key: value for key, value in match.groupdict().items() if value is not None}
    named = match.re.groupindex.values()
    numbers = [text for place, text in enumerate(match.groups(), 1) if text and place not in named]
    right = names.get("right", "the same")
    return Check(
        relation=relation,
        left=tuple(names["left"].split(", ")),
        right=None if right == "the same" else tuple(right.split(", ")),
        numbers=tuple(float(number) for number in numbers),
        other=other or None,
        operator=operator,
        bounds=tuple(float(bound) for bound in bounds.split(",")) if bounds else (),
    )


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
        here: the figure's points, as `figures.PaperFigure.points` returns them.
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
        for what, gap in RELATIONS[check.relation][1](name, line, rivals, *check.numbers):
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
    if ratio < -max(SURE, norm.isf(CHANCE / len(gaps))):
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


RELATIONS: dict[str, tuple[str, Callable[..., Gaps]]] = {
    "above": (r"(?P<left>.+) > (?P<right>.+?)(?: \+ #)?", _above),
    "within": (r"(?P<left>.+) within # of (?P<right>.+)", _within),
    "falls": (r"(?P<left>.+) falls", _falls),
    "rises": (r"(?P<left>.+) rises", _rises),
    "flat": (r"(?P<left>.+) flat within #", _flat),
    "highest": (r"(?P<left>.+) highest between # and #", _highest),
    "flatter": (r"(?P<left>.+) flatter than (?P<right>.+)", _flatter),
}
"""How each relation is spelled, # being a number, and what it compares."""
