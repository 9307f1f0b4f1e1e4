"""What accuracies real data sets would have: the experience that `plan` rests on.

`plan_tasks.csv` has a row for each of them (`python -m benchmarks.plan_calibration` writes it):
real tables with the default linear model, and the benchmark's committed runs of networks on images.
"""

from collections.abc import Sequence
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd
from numpy.typing import NDArray

OUTSIDE = 0.05
"""Of the data sets below the range, and as many above."""
CERTAIN = 0.02
"""Ceilings nearer than this to 0 and 1 count as this far, or no shift could move them."""
SHRINKAGE = 5.0
"""Data sets that would say that redundancy means nothing: keeps the slope small."""


def expected_accuracies(
    effective_per_class: float,
    num_classes: int,
    class_shares: Sequence[float] | None = None,
    redundancy: float | None = None,
    tasks: pd.DataFrame | None = None,
) -> NDArray[np.float64]:
    """Returns the accuracy that each known data set would have, sorted, (T,).

    A data set has a ceiling (what its features say of the label, from the accuracy of guessing, 0,
    to certainty, 1) and a number c of true labels per class at which half of the way from chance to
    the ceiling is gone: n effective labels go n / (n + c) of it. More columns do not mean a larger
    c: over the 39 tables log c has correlation -.13 with the logarithm of their number, and -.53
    with the ceiling.

    Args:
        effective_per_class: n, true labels for each class that the releases are worth.
        num_classes: K.
        class_shares: public guesses; None: as uneven as each data set's own.
        redundancy: of your columns (`redundancy.redundancy`). Data sets whose columns say less of
            each other have lower ceilings; they are shifted by a line in log odds. None: as known.
        tasks: the known data sets; None: those of `plan_tasks.csv`.
    """
    tasks = _tasks() if tasks is None else tasks
    uneven = tasks.uneven.to_numpy()
    if class_shares is not None:
        uneven = (max(class_shares) - 1 / num_classes) / (1 - 1 / num_classes)
    ceiling, labels = tasks.ceiling.to_numpy(), tasks.labels.to_numpy()
    if redundancy is not None:
        # Runs on images have no columns; they stay out.
        known = tasks.redundancy.notna().to_numpy()
        own = tasks.redundancy[known].to_numpy()
        ceiling, labels = _shifted(ceiling[known], own, redundancy), labels[known]
        uneven = uneven if class_shares is not None else uneven[known]
    whole = uneven + (1 - uneven) * ceiling
    learnt = effective_per_class / (effective_per_class + labels)
    return np.sort(1 / num_classes + (1 - 1 / num_classes) * whole * learnt)


def range_of(accuracies: NDArray[np.float64]) -> tuple[float, float, float]:
    """Returns the ends between which nine of ten known data sets lie, and the middle one.

    Args:
        accuracies: sorted, (T,).

    Returns:
        (low, middle, high).
    """
    ends = [np.quantile(accuracies, OUTSIDE, method="lower"), np.median(accuracies),
            np.quantile(accuracies, 1 - OUTSIDE, method="higher")]  # fmt: skip
    return float(ends[0]), float(ends[1]), float(ends[2])


def number_known(with_columns: bool) -> int:
    """Returns how many data sets are known, or how many of them with columns."""
    return int(_tasks().redundancy.notna().sum()) if with_columns else len(_tasks())


def usual_redundancy() -> float:
    """Returns the median redundancy of the known tables."""
    return float(_tasks().redundancy.median())


def _shifted(
    ceilings: NDArray[np.float64], own: NDArray[np.float64], yours: float
) -> NDArray[np.float64]:
    """Returns the ceilings that the data sets would have if their columns were as yours."""
    held = ceilings.clip(CERTAIN, 1 - CERTAIN)
    odds = np.log(held / (1 - held))
    centred = own - own.mean()
    slope = (centred @ (odds - odds.mean())) / (centred @ centred + SHRINKAGE * own.var())
    return 1 / (1 + np.exp(-(odds + slope * (yours - own))))


@cache
def _tasks() -> pd.DataFrame:
    """Returns task, classes, uneven, ceiling, labels, redundancy (missing without columns)."""
    with resources.files("labeldp").joinpath("plan_tasks.csv").open() as file:
        return pd.read_csv(file)
