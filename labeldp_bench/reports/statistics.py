"""Intervals and tests for means of few runs: every `±`, star and verdict comes from here.

Student's t, since a cell has two to ten seeds. Two methods that share seeds are compared seed by
seed, others by Welch's test. Where a table makes many comparisons, their p values are corrected
after Holm (1979).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
LEVEL = 0.05
"""A difference is called one only if its corrected p value is below this."""
ENOUGH_SEEDS = 3
"""A mean of fewer stands without an interval beside others."""
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
        error: its standard error; NaN where one run alone is known.
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
        return float(self.error * stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom))

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
        return float(stats.t.sf(self.value / self.error, self.freedom))

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
