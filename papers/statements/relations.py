"""The relations that a check may claim of lines: how each is spelled, and what it compares."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from labeldp.support.validate import InputError
from labeldp_bench.reports.statistics import NOTHING, SeedsEstimate

Series = dict[float | None, SeedsEstimate]
"""{x: estimate}; the key None is a level, the same at every x."""


class Gap(NamedTuple):
    """One comparison; a check claims that its difference is > 0.

    Attributes:
        what: is compared, in words.
        difference: of the two.
        chosen_from: how many there are of what its left side is the highest of, by the same runs.
    """

    what: str
    difference: SeedsEstimate
    chosen_from: int = 1


Gaps = Iterator[Gap]


class Relation(NamedTuple):
    """One relation.

    Attributes:
        spelling: an expression with the groups `left` and, with rivals, `right`; # is a number.
        compare: takes the name of a line, the line, {name: rival} and the numbers; yields gaps.
    """

    spelling: str
    compare: Callable[..., Gaps]


def _apart(
    name: str, line: Series, rivals: dict[str, Series], bound: float | None, more: float = 0.0
) -> Gaps:
    """Yields how far a line is above its rivals, or how far within `bound` of them."""
    for (rival, theirs), x in itertools.product(rivals.items(), line):
        gap = line[x].minus(theirs.get(x, theirs.get(None, NOTHING)))
        if bound is None:
            apart = replace(gap, value=gap.value - more, by_seed={})
            yield Gap(f"{name} - {rival} at {_spell(x)}", apart)
        else:
            yield Gap(f"{bound:g} - gap of {name} and {rival} at {_spell(x)}", _below(gap, bound))


def _above(name: str, line: Series, rivals: dict[str, Series], more: float = 0.0) -> Gaps:
    return _apart(name, line, rivals, None, more)


def _falls(name: str, line: Series, rivals: dict[str, Series]) -> Gaps:
    for x, following in itertools.pairwise(line):
        gap = line[x].minus(line[following])
        yield Gap(f"{name} at {_spell(x)} - at {_spell(following)}", gap)


def _rises(name: str, line: Series, rivals: dict[str, Series]) -> Gaps:
    return _falls(name, dict(reversed(line.items())), rivals)


def _flat(name: str, line: Series, rivals: dict[str, Series], bound: float) -> Gaps:
    for x, other in itertools.combinations(line, 2):
        gap = _below(line[x].minus(line[other]), bound)
        yield Gap(f"{bound:g} - gap of {name} between {_spell(x)} and {_spell(other)}", gap)


def _highest(name: str, line: Series, rivals: dict[str, Series], low: float, high: float) -> Gaps:
    inside = {x: y for x, y in line.items() if x is not None and low <= x <= high}
    if not inside:
        raise InputError(f"the figure has no x between {low:g} and {high:g}")
    # A value that is missing might be the best.
    lacks = any(math.isnan(y.value) for y in inside.values())
    best = max(inside, key=lambda x: inside[x].value)
    for x in (x for x in line if x not in inside):
        gap = NOTHING if lacks else line[best].minus(line[x])
        yield Gap(f"{name} at {_spell(best)} - at {_spell(x)}", gap, chosen_from=len(inside))


def _flatter(name: str, line: Series, rivals: dict[str, Series]) -> Gaps:
    for rival, theirs in rivals.items():
        lacks = any(math.isnan(y.value) for y in (*theirs.values(), *line.values()))
        wide, flat = (_range(each) for each in (theirs, line))
        yield Gap(f"range of {rival} - {name}", NOTHING if lacks else wide.minus(flat))


def _below(gap: SeedsEstimate, bound: float) -> SeedsEstimate:
    """Returns how far the size of a gap stays below `bound`."""
    return replace(gap, value=bound - abs(gap.value), by_seed={})


def _range(series: Series) -> SeedsEstimate:
    """Returns the highest value of a series minus its lowest."""
    ordered = sorted(series.values(), key=lambda each: each.value)
    return ordered[-1].minus(ordered[0])


def _spell(x: float | None) -> str:
    return "any x" if x is None else f"{x:g}"


RELATIONS = {
    "above": Relation(r"(?P<left>.+) > (?P<right>.+?)(?: \+ #)?", _above),
    "within": Relation(r"(?P<left>.+) within # of (?P<right>.+)", _apart),
    "falls": Relation(r"(?P<left>.+) falls", _falls),
    "rises": Relation(r"(?P<left>.+) rises", _rises),
    "flat": Relation(r"(?P<left>.+) flat within #", _flat),
    "highest": Relation(r"(?P<left>.+) highest between # and #", _highest),
    "flatter": Relation(r"(?P<left>.+) flatter than (?P<right>.+)", _flatter),
}
