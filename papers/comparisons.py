"""Tests of differences between means of few runs, corrected for their number.

Two methods that share seeds are compared seed by seed, others by Welch's test. Where a table makes
many comparisons, their p values are corrected after Holm (1979).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from labeldp_bench.reports.statistics import SeedsEstimate, combined

LEVEL = 0.05
"""A difference is called one only if its corrected p value is below this."""
TESTED = ("difference", "difference_low", "difference_high", "pairs", "p", "significant")
"""The columns that say what a test found."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p values corrected for their number (Holm 1979); NaN stays, and does not count.

    >>> holm([0.04, 0.01, math.nan])
    [0.04, 0.02, nan]
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    corrected, least = [math.nan] * len(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * p))
        corrected[place] = least
    return corrected


def is_significant(p: float) -> bool:
    """Returns whether a corrected p value is below `LEVEL`; never where it is unknown."""
    return p < LEVEL


class Pair(NamedTuple):
    """Two means that are compared.

    Attributes:
        place: what tells the pair from others, {column: value}.
        one, other: the means.
        chosen_from: of how many pairs it is the best by the same runs; p counts as often.
    """

    place: Mapping[str, Any]
    one: SeedsEstimate
    other: SeedsEstimate
    chosen_from: int = 1


def differences(pairs: Iterable[Pair], family: str = "") -> pd.DataFrame:
    """Returns a row per pair: one - other, with its interval and its test.

    Args:
        pairs: at least one.
        family: a column of their places; p is corrected within each of its values, else for all.

    Returns:
        Columns: those of the places; difference, difference_low and difference_high (the ends of
        its 95 % t interval); pairs, how many seeds both have; p, corrected after Holm; significant.
    """
    rows = []
    for pair in pairs:
        gap, shared = pair.one.minus(pair.other), pair.one.by_seed.keys() & pair.other.by_seed
        p = float(np.minimum(1.0, pair.chosen_from * gap.p))  # NaN stays
        found = (gap.value, gap.low, gap.high, len(shared), p)
        rows.append({**pair.place, **dict(zip(TESTED, found, strict=False))})
    frame = pd.DataFrame(rows)
    families = frame[family] if family else [0] * len(frame)
    frame["p"] = frame.p.groupby(families).transform(lambda own: holm(own.tolist()))
    return frame.assign(significant=frame.p.map(is_significant))


@dataclass(frozen=True)
class Spread:
    """How far runs of one kind lie apart.

    Attributes:
        variance: of one run.
        freedom: its degrees of freedom, > 0.
    """

    variance: float
    freedom: float


def pooled(estimates: Sequence[SeedsEstimate]) -> Spread | None:
    """Returns the spread of runs over seeds that several methods share; None without two runs."""
    found = [(len(each.by_seed), each.error) for each in estimates if len(each.by_seed) > 1]
    freedom = sum(count - 1 for count, _ in found)
    if not freedom:
        return None
    total = sum((count - 1) * count * error**2 for count, error in found)
    return Spread(total / freedom, freedom)


def against_printed(
    ours: SeedsEstimate,
    printed: float,
    n_test: float,
    alike: Spread | None = None,
    *,
    spread: float = math.nan,
    runs: int = 1,
) -> SeedsEstimate:
    """Returns our mean minus a printed value, both accuracies in percent.

    The variance has three parts: our mean's, the printed value's, and that of drawing the test
    images. Where a paper states no spread, its runs are taken to spread as ours do.

    Args:
        ours: over seeds; of one seed the error is unknown, and that of the difference too.
        printed: what the paper prints.
        n_test: how many test images the value is as good as.
        alike: how our runs, and the paper's, spread; None: as those of `ours`.
        spread: the standard deviation of the paper's runs; NaN where it states none.
        runs: how many runs its value averages.
    """
    share, seeds = printed / 100, len(ours.by_seed)
    images = (1e4 * share * (1 - share) / n_test, math.inf)
    if not math.isnan(spread):
        parts = [(ours.error**2, ours.freedom), (spread**2 / runs, max(1, runs - 1)), images]
    elif alike is not None:
        parts = [(alike.variance * (1 / seeds + 1 / runs), alike.freedom), images]
    else:
        parts = [(ours.error**2 * (1 + seeds / runs), ours.freedom), images]
    return SeedsEstimate(ours.value - printed, *combined(parts))
