"""What the text of PLE says of its figures, in our words. Its figures print no numbers."""

import math
from collections.abc import Iterable
from dataclasses import replace

from labeldp_bench.reports.statistics import NOTHING
from papers.checks import Gap, Lines, Statement

ENHANCED, PLAIN = "ple", "ple+plain"
RIVALS = ("lp_2st", "alibi")


def ahead_of_more_private(lines: Lines, name: str, rivals: Iterable[str]) -> list[Gap]:
    """Returns how far each point of a line is above each rival's that names no more labels.

    Whoever is ahead at every response accuracy is ahead of these too, so that no accuracy between
    two points has to be guessed.
    """
    gaps = []
    for x, y in lines[name].items():
        for rival in rivals:
            for named, theirs in lines[rival].items():
                if x is None or named is None:
                    gaps.append(Gap(f"{name} - {rival}", NOTHING))
                elif named <= x:
                    what = f"{name} at {x:.1f} - {rival} at {named:.1f}"
                    gaps.append(Gap(what, y.minus(theirs)))
    return gaps


def gains(lines: Lines) -> list[Gap]:
    """Returns how far the objective is above plain cross entropy, setting by setting.

    Both lines have the same settings, in the order of their response accuracy, which differs where
    their seeds do.
    """
    pairs = list(zip(lines[ENHANCED].items(), lines[PLAIN].items(), strict=False))
    if len(lines[ENHANCED]) != len(lines[PLAIN]):
        return [Gap(f"{ENHANCED} - {PLAIN}", NOTHING)]
    return [
        Gap(f"{ENHANCED} - {PLAIN} at {math.nan if x is None else x:.1f}", ours.minus(plain))
        for (x, ours), (_, plain) in pairs
    ]


def drops(bound: float, lines: Lines) -> list[Gap]:
    """Returns by how much less than `bound` plain cross entropy falls below the objective."""
    return [
        Gap(
            f"{bound:g} - ({gap.what})",
            replace(gap.difference, value=bound - gap.difference.value, by_seed={}),
        )
        for gap in gains(lines)
    ]


FIGURE_2 = (
    Statement(
        "At every response accuracy PLE's models are better than LP-2ST's and ALIBI's.",
        "section 5.2",
        "ple > lp_2st, alibi where they name no more labels",
        lambda lines: ahead_of_more_private(lines, ENHANCED, RIVALS),
    ),
)
FIGURE_3 = (
    Statement(
        "The server's objective is better than plain cross entropy.",
        "section 5.3",
        "ple > ple+plain",
        gains,
    ),
    Statement(
        "With plain cross entropy the accuracy on CIFAR-10 drops by 5 points only.",
        "section 5.3",
        "ple - ple+plain < 5",
        lambda lines: drops(5, lines),
        panels=["cifar10"],
    ),
    Statement(
        "On CIFAR-100 it drops by 8 points only.",
        "section 5.3",
        "ple - ple+plain < 8",
        lambda lines: drops(8, lines),
        panels=["cifar100"],
    ),
)
