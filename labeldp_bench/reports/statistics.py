"""Means of few runs over seeds, with their intervals and tests: every `±` comes from here.

Student's t, since a cell has two to ten seeds. Runs whose releases have two distributions are never
averaged: the newest distribution counts. Two methods that share seeds are compared seed by seed,
others by Welch's test; p values of many comparisons are corrected after Holm (1979).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats takes a second to import

from labeldp_bench.records.record import Record

if TYPE_CHECKING:  # half a second, which a run's summary need not wait for
    import pandas as pd

CONFIDENCE = 0.95
ENOUGH_SEEDS = 3
"""A mean of fewer seeds is shown without an interval."""
ROUNDING = 1e-9
"""Values whose spread is less than this share of the largest agree to the last digit."""
PLUS_MINUS = (
    "±: half the width of the 95 % t interval over seeds; of one seed with trials, over its "
    "trials. One run alone has none."
)
"""Stands under every table that shows an interval."""


@dataclass(frozen=True)
class SeedsEstimate:
    """A mean with its uncertainty; all is missing (NaN) without a record.

    Attributes:
        value: the mean.
        error: its standard error; NaN where only one run is known.
        freedom: degrees of freedom of the error, > 0.
        by_seed: {seed: value}, for a comparison by seed; empty where there is none.
    """

    value: float
    error: float = math.nan
    freedom: float = math.inf
    by_seed: Mapping[int, float] = field(default_factory=dict)

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % t interval; NaN where the error is unknown."""
        if math.isnan(self.error):
            return math.nan
        return float(self.error * stdtrit(self.freedom, (1 + CONFIDENCE) / 2))

    @property
    def low(self) -> float:
        """The lower end of the 95 % t interval; NaN where the error is unknown."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the 95 % t interval; NaN where the error is unknown."""
        return self.value + self.half_width

    @property
    def probability_below(self) -> float:
        """One-sided p value of the hypothesis that the true value is at most 0.

        Near 0 the true value is positive, near 1 it is negative; NaN where the error is unknown.
        """
        if math.isnan(self.error):
            return math.nan
        if self.error == 0:
            return 0.5 - math.copysign(0.5, self.value) if self.value else 0.5
        return float(stdtr(self.freedom, -self.value / self.error))

    @property
    def p(self) -> float:
        """Two-sided p value of the hypothesis that the true value is 0.

        NaN too where two seeds or more agree to the last digit and not on 0: accuracies are counts,
        so that few may coincide, and a spread of 0 would be taken for certainty.
        """
        if self.error == 0 and self.value and len(self.by_seed) > 1:
            return math.nan
        one = self.probability_below
        return 2 * min(one, 1 - one)

    def scaled(self, factor: float) -> "SeedsEstimate":
        """Returns the estimate in another unit."""
        own = {seed: factor * value for seed, value in self.by_seed.items()}
        return SeedsEstimate(factor * self.value, abs(factor) * self.error, self.freedom, own)

    def minus(self, other: "SeedsEstimate") -> "SeedsEstimate":
        """Returns the difference: by seed where `ENOUGH_SEEDS` are shared, else Welch's.

        Of a comparison by seed the seeds that only one side has do not count. There is no error
        where all pairs agree to the last digit, or the seeds of each side, for the reason that `p`
        gives.
        """
        shared = [seed for seed in self.by_seed if seed in other.by_seed]
        if len(shared) >= ENOUGH_SEEDS:
            gap = from_seeds({seed: self.by_seed[seed] - other.by_seed[seed] for seed in shared})
            return replace(gap, error=math.nan) if gap.error == 0 and gap.value else gap
        parts = [(self.error**2, self.freedom), (other.error**2, other.freedom)]
        error, freedom = combined(parts)
        by_luck = error == 0 and len(self.by_seed) > 1 and len(other.by_seed) > 1
        return SeedsEstimate(self.value - other.value, math.nan if by_luck else error, freedom)


NOTHING = SeedsEstimate(math.nan)


def from_seeds(values: Mapping[int, float]) -> SeedsEstimate:
    """Returns the mean over seeds.

    >>> round(from_seeds({0: 1.0, 1: 2.0, 2: 3.0}).half_width, 3)
    2.484
    """
    if not values:
        return NOTHING
    found = np.array(list(values.values()))
    count = len(found)
    spread = float(found.std(ddof=1)) if count > 1 else math.nan
    # Differences that are alike differ in their last bits: that is no spread.
    if spread < ROUNDING * np.abs(found).max():
        spread = 0.0
    return SeedsEstimate(
        float(found.mean()), spread / math.sqrt(count), max(1, count - 1), dict(values)
    )


def combined(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Returns (standard error, degrees of freedom) of a sum (Welch 1947, Satterthwaite 1946).

    Args:
        parts: (variance of a mean, its degrees of freedom) of independent terms.
    """
    pairs = list(parts)
    variance = sum(part for part, _ in pairs)
    weights = sum(part**2 / freedom for part, freedom in pairs)
    return math.sqrt(variance), variance**2 / weights if weights else math.inf


OLDER = "older"
"""The column that counts runs which are left out; there is none without any."""
ONE_BEST_LABEL = ("none", "rr", "lp_1st", "lp_1st_star", "alibi", "ple")
"""Mechanisms whose release always fits one label best."""


def newest(records: Sequence[Record]) -> list[Record]:
    """Returns those of one point's records whose releases have the newest distribution.

    Runs without privacy draw no noise: all of them count.
    """
    if all(record.get("mechanism") == "none" for record in records):
        return list(records)
    version = max((record["distribution"] for record in records), default=None)
    return [record for record in records if record["distribution"] == version]


class Average(NamedTuple):
    """A point of several seeds.

    Attributes:
        kept: the records that count.
        estimate: mean of their scores with its error over seeds; of one record, over its trials.
        older: how many records are left out.
    """

    kept: list[Record]
    estimate: SeedsEstimate
    older: int


def average(records: Sequence[Record], score: str) -> Average:
    """Returns the average of a field of records that differ only in the seed."""
    kept = newest(records)
    seeds = {
        int(record.get("seed", place)): value
        for place, record in enumerate(kept)
        if (value := score_of(record, score)) is not None
    }
    estimate = from_seeds(seeds)
    if len(kept) == 1 and kept[0].get(f"{score}_sem") is not None:
        trials = kept[0].get("trials") or math.inf
        error = float(kept[0][f"{score}_sem"])
        estimate = SeedsEstimate(estimate.value, error, trials - 1, seeds)
    return Average(kept, estimate, len(records) - len(kept))


def score_of(record: Record, score: str) -> float | None:
    """Returns a field of a record; None where it is not known.

    `response_accuracy` is how often the first choice of a release is the true label. Older records
    lack it. They have `released_agreement`, which counts a release that fits m labels equally well
    as 1/m. Both are equal where one label always fits best: there the older field is used.
    """
    value = record.get(score)
    if value is None and score == "response_accuracy" and record["mechanism"] in ONE_BEST_LABEL:
        value = record.get("released_agreement")
    return None if value is None else float(value)


def without_zeros(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Returns the rows without the column `OLDER` if nothing is left out."""
    return rows if rows[OLDER].any() else rows.drop(columns=OLDER)


def left_out(rows: "pd.DataFrame") -> list[str]:
    """Returns the line of a page that says how many older runs are left out, and why; or none."""
    runs = int(rows[OLDER].sum()) if OLDER in rows else 0
    if not runs:
        return []
    those = "1 older run is" if runs == 1 else f"{runs} older runs are"
    return [
        f"{those} left out: the same cell has runs whose releases have a newer distribution "
        "(`distribution`), and two distributions are never averaged."
    ]


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


def differences(pairs: Iterable[Pair], family: str = "") -> "pd.DataFrame":
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
    import pandas as pd

    frame = pd.DataFrame(rows)
    families = frame[family] if family else [0] * len(frame)
    frame["p"] = frame.p.groupby(families).transform(lambda own: holm(own.tolist()))
    return frame.assign(significant=frame.p.map(is_significant))
