"""Differences from printed values, whose spread and test images are uncertain too."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labeldp_bench.reports.statistics import SeedsEstimate, combined


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
