"""Whether what a paper's text says of its figure is true of our records.

A statement compares lines of one panel; `gaps` returns every comparison that it asks for, each a
difference that should be positive.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from labeldp_bench.reports.statistics import LEVEL, NOTHING, SeedsEstimate

Series = dict[float | None, SeedsEstimate]
"""{x: estimate} of one line; the key None is a level, the same at every x."""
Lines = Mapping[str, Series]
"""{name: series} of one panel."""


class Gap(NamedTuple):
    """One comparison.

    Attributes:
        what: the compared values, in words.
        difference: should be > 0.
        chosen_from: number of values that its left side is the highest of, by the same runs.
    """

    what: str
    difference: SeedsEstimate
    chosen_from: int = 1


@dataclass(frozen=True)
class Statement:
    """One sentence of a paper about its figure.

    Attributes:
        says: the statement, in our words.
        where: the place in the paper.
        check: the comparison, as the figure's page shows it.
        gaps: returns the comparisons from the lines of one panel. A line of the figure `other` is
            called `line (other)`, in a panel that only the other figure has `line (other, panel)`.
        panels: the panels that it is about; empty: all.
        other: the experiment of a second figure.
    """

    says: str
    where: str
    check: str
    gaps: Callable[[Lines], Iterable[Gap]]
    panels: Sequence[str] = ()
    other: str = ""


class Verdict(NamedTuple):
    """What the records say of one statement.

    Attributes:
        word: `holds`, `does not hold`, `undecided` or `no data`.
        evidence: the comparison that speaks most against it, and what is missing.
    """

    word: str
    evidence: str


Where = Callable[[float], bool]
"""Tells which x of a line a comparison takes."""


def above(lines: Lines, name: str, rivals: Iterable[str], at: Where | None = None) -> list[Gap]:
    """Returns how far a line is above each rival, at each x that `at` takes."""
    return [
        Gap(f"{name} - {rival} at {x}", gap)
        for rival, x, gap in _differences(lines, name, rivals, at)
    ]


def within(
    bound: float, lines: Lines, name: str, rivals: Iterable[str], at: Where | None = None
) -> list[Gap]:
    """Returns by how much a line and each rival are less than `bound` apart."""
    return [
        Gap(f"{bound:g} - gap of {name} and {rival} at {x}", _below(gap, bound))
        for rival, x, gap in _differences(lines, name, rivals, at)
    ]


def falls(lines: Lines, name: str, at: Where | None = None, *, rises: bool = False) -> list[Gap]:
    """Returns how far a line falls, or rises, from each x to the next."""
    line = _picked(lines[name], at)
    return [
        Gap(f"{name} at {_spell(x)} - at {_spell(other)}", line[x].minus(line[other]))
        for x, other in itertools.pairwise(reversed(line) if rises else line)
    ]


def flat(bound: float, lines: Lines, name: str, at: Where | None = None) -> list[Gap]:
    """Returns by how much each two values of a line are less than `bound` apart."""
    line = _picked(lines[name], at)
    return [
        Gap(
            f"{bound:g} - gap of {name} between {_spell(x)} and {_spell(other)}",
            _below(line[x].minus(line[other]), bound),
        )
        for x, other in itertools.combinations(line, 2)
    ]


def highest(lines: Lines, name: str, low: float, high: float) -> list[Gap]:
    """Returns how far the best value at x in [low, high] is above each value at another x."""
    line = lines[name]
    inside = {x: y for x, y in line.items() if x is not None and low <= x <= high}
    # A value that is missing might be the best.
    lacks = any(math.isnan(y.value) for y in inside.values())
    best = max(inside, key=lambda x: inside[x].value)
    return [
        Gap(
            f"{name} at {_spell(best)} - at {_spell(x)}",
            NOTHING if lacks else line[best].minus(line[x]),
            chosen_from=len(inside),
        )
        for x in line
        if x not in inside
    ]


def flatter(lines: Lines, name: str, rivals: Iterable[str]) -> list[Gap]:
    """Returns by how much the range of each rival is wider than that of a line."""
    narrow = _range(lines[name])
    return [
        Gap(f"range of {rival} - {name}", _range(lines[rival]).minus(narrow)) for rival in rivals
    ]


def compare(
    statement: Statement,
    points: pd.DataFrame,
    title_of: Callable[[str], str],
    other: pd.DataFrame | None = None,
) -> list[Gap]:
    """Returns every comparison that a statement asks for.

    Args:
        statement: what is claimed.
        points: of the figure, as `PaperFigure.points` returns them.
        title_of: returns the title of a panel.
        other: points of the figure `statement.other`.
    """
    ours = lines_of(points)
    theirs = {} if other is None else lines_of(other)
    panels = statement.panels or list(ours)
    gaps: list[Gap] = []
    for panel in panels:
        foreign = {
            f"{line} ({statement.other}{f', {there}' * (there != panel)})": series
            for there, lines in theirs.items()
            for line, series in lines.items()
        }
        where = f", {title_of(panel)}" if len(panels) > 1 else ""
        compared = statement.gaps(ours[panel] | foreign)
        gaps += [gap._replace(what=gap.what + where) for gap in compared]
    assert gaps, f"{statement.check} compares nothing"
    return gaps


def judge(gaps: Sequence[Gap]) -> Verdict:
    """Returns whether every comparison is true.

    Holds: each comparison is true by a one-sided t test at 2.5 %. All must be, so that their number
    makes the claim harder, and asks for no correction; but where the best of several is compared,
    its p counts as often (Bonferroni). Does not hold: one is false by as much after
    Holm's correction for their number. Undecided in between, and where records are missing or an
    error is unknown, as it is after a single run.
    """
    missing = sum(math.isnan(gap.difference.value) for gap in gaps)
    known = [gap for gap in gaps if not math.isnan(gap.difference.error)]
    if missing == len(gaps):
        return Verdict("no data", "")
    notes = [f"{missing} of {len(gaps)} comparisons lack records"] if missing else []
    if len(known) + missing < len(gaps):
        notes.append("errors of single runs are unknown")
    if not known:
        return Verdict("undecided", "; ".join(notes))
    gap = max(known, key=lambda gap: (gap.difference.probability_below, -gap.difference.value))
    apart, worst = gap.difference, gap.difference.probability_below
    evidence = "; ".join([f"{gap.what}: {apart.value:+z.2f} ± {apart.half_width:.2f}", *notes])
    # Records that are missing count as comparisons that could have been false.
    if (1 - worst) * len(gaps) < LEVEL / 2:
        return Verdict("does not hold", evidence)
    holds = worst * gap.chosen_from < LEVEL / 2 and not notes
    return Verdict("holds" if holds else "undecided", evidence)


def lines_of(points: pd.DataFrame) -> dict[str, dict[str, Series]]:
    """Returns {panel: {line: series}} of a figure's points."""
    panels: dict[str, dict[str, Series]] = {panel: {} for panel in points.panel}
    for point in points.sort_values("x").itertuples():
        x = None if math.isnan(point.x) else point.x
        panels[point.panel].setdefault(point.line, {})[x] = point.estimate
    return panels


def _picked(line: Series, at: Where | None) -> Series:
    return {x: y for x, y in line.items() if x is None or at is None or at(x)}


def _differences(
    lines: Lines, name: str, rivals: Iterable[str], at: Where | None
) -> Iterator[tuple[str, str, SeedsEstimate]]:
    """Yields each rival, the x in words, and the difference between the line and it."""
    line = _picked(lines[name], at)
    for rival, x in itertools.product(rivals, line):
        theirs = lines[rival]
        yield rival, _spell(x), line[x].minus(theirs.get(x, theirs.get(None, NOTHING)))


def _below(gap: SeedsEstimate, bound: float) -> SeedsEstimate:
    return replace(gap, value=bound - abs(gap.value), by_seed={})


def _range(series: Series) -> SeedsEstimate:
    """Returns the highest minus the lowest value; nothing where one is missing."""
    if any(math.isnan(y.value) for y in series.values()):
        return NOTHING
    ordered = sorted(series.values(), key=lambda y: y.value)
    return ordered[-1].minus(ordered[0])


def _spell(x: float | None) -> str:
    return "any x" if x is None else f"{x:g}"
