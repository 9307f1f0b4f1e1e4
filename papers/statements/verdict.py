"""Whether a paper's statements about its figure are true of our records. Imports no torch."""

import itertools
import math
from dataclasses import dataclass

import pandas as pd

from labeldp.support.validate import InputError
from labeldp_bench.reports.statistics import LEVEL
from papers.statements.check import Check
from papers.statements.relations import RELATIONS, Gap, Series

AllSeries = dict[tuple[str, str], Series]
"""{(panel, line): its series}."""


@dataclass(frozen=True)
class Verdict:
    """What the records say of one statement.

    Attributes:
        word: `holds`, `does not hold`, `undecided` or `no data`.
        evidence: the comparison that speaks most against it, and what is missing.
    """

    word: str
    evidence: str


def compare(
    check: Check, here: pd.DataFrame, there: pd.DataFrame, panels: dict[str, str]
) -> list[Gap]:
    """Returns every comparison that a check asks for.

    Args:
        check: what is claimed.
        here: the figure's points, as `paper.PaperFigure.points` returns them.
        there: those that the right side is from; the same unless `check.other` names a figure.
        panels: {panel: its title} of those panels of `here` that count.

    Raises:
        InputError: a panel, a line or values of x that a figure does not have.
    """
    ours, theirs = _series_of(here), _series_of(there)
    relation = RELATIONS[check.relation]
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
        where = f", {title}" if len(panels) > 1 else ""
        compared = relation.compare(name, line, rivals, *check.numbers)
        gaps += [gap._replace(what=gap.what + where) for gap in compared]
    return gaps


def judge(gaps: list[Gap]) -> Verdict:
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


def _series_of(points: pd.DataFrame) -> AllSeries:
    """Returns every series of a figure's points."""
    series: AllSeries = {}
    for point in points.sort_values("x").itertuples():
        x = None if math.isnan(point.x) else point.x
        series.setdefault((point.panel, point.line), {})[x] = point.estimate
    return series


def _find(series: AllSeries, panel: str, line: str) -> Series:
    if (panel, line) not in series:
        known = ", ".join(f"{name} in {where!r}" for where, name in series)
        raise InputError(f"the figure has no line {line} in panel {panel!r} (it has {known})")
    return series[panel, line]
