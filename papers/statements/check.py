"""Checks of what a paper's text says of its figure: one line of YAML each. Imports no torch.

Lines and x are called as the figure calls them:

    rappor > rr, alibi for K >= 40                   more, at every such x
    rappor > rr + 2                                  by more than 2, in units of the axis
    rr, rappor > the same in <paper>/figure4         each more than its namesake there
    rappor within 1 of rr, alibi                     at most 1 apart
    rappor falls for K >= 20                         from each x to the next; also: rises
    rappor flat within 5                             no two values more than 5 apart
    blockrr highest between 1.0 and 1.4              no x outside is better than the best inside
    blockrr flatter than blockrr in <paper>/figure2  a smaller range, than in any panel there
"""

import re
from dataclasses import dataclass

from labeldp.support.validate import InputError
from papers.statements.relations import RELATIONS


@dataclass(frozen=True)
class Check:
    """A check, read from one line of YAML.

    Attributes:
        relation: a key of `relations.RELATIONS`.
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
    operator, bounds = "", ""
    matches = (
        (name, re.fullmatch(each.spelling.replace("#", r"(\d+(?:\.\d+)?)"), claim))
        for name, each in RELATIONS.items()
    )
    relation, match = next(((name, match) for name, match in matches if match), ("", None))
    if match is None:
        raise InputError(f"cannot read the check {text!r} (docs/figures.md lists what there is)")
    if condition:
        picks = re.fullmatch(rf"{re.escape(symbol)} (>=|<=|=) (\d[\d., ]*)", condition)
        if not picks:
            raise InputError(f"after `for` comes {symbol} >= 1, <= 1 or = 1, 2; got {condition!r}")
        operator, bounds = picks.groups()
    names = match.groupdict()
    named = match.re.groupindex.values()
    numbers = [text for place, text in enumerate(match.groups(), 1) if text and place not in named]
    right = names.get("right") or "the same"
    return Check(
        relation=relation,
        left=tuple(names["left"].split(", ")),
        right=None if right == "the same" else tuple(right.split(", ")),
        numbers=tuple(map(float, numbers)),
        other=other or None,
        operator=operator,
        bounds=tuple(map(float, bounds.split(","))) if bounds else (),
    )
