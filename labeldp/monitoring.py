"""What changed between successive releases of different people."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from labeldp.estimates import (
    Estimate,
    check_classes_released,
    possible_values,
    share_with_interval,
    unbiased_labels,
)
from labeldp.metrics import judged
from labeldp.release import Release
from labeldp.rows import keys_of
from labeldp.support.files import replacing
from labeldp.support.validate import InputError


@dataclass(frozen=True)
class Change:
    """A share in each of T releases.

    Attributes:
        name: of what it is the share.
        estimates: T, with 95 % intervals.
        p_value: of a chi-square test that the share is the same in all of them. Of K classes each
            is tested on its own, and p is multiplied by K (by 1 where there are two).
    """

    name: str
    estimates: list[Estimate]
    p_value: float


def changes(
    releases: Sequence[Release], scores: Sequence[NDArray[np.float64]] | None = None
) -> list[Change]:
    """Returns the share of each class in each release, or with scores the accuracy of a model.

    Args:
        releases: T >= 2, of different people and the same classes.
        scores: of each release, (N, K) probabilities of a model that was fitted to other rows.

    Raises:
        InputError: fewer than two releases, other classes, fewer than two rows, or rows that are
            in two of them.
    """
    for each in releases:
        check_classes_released(each)
        if each.classes != releases[0].classes:
            raise InputError(f"all releases must have the same classes, got {releases[0].classes} "
                             f"and {each.classes}")  # fmt: skip
    if len(releases) < 2 or min(map(len, releases)) < 2:
        raise InputError("a change takes at least two releases, of two rows each")
    keys = np.concatenate([keys_of(each) for each in releases])
    if twice := len(keys) - len(np.unique(keys)):
        raise InputError(
            f"releases must be of different people, and {twice:,} rows are in more than one of "
            "them (give each row once)"
        )
    values = [possible_values(each) for each in releases]
    labels = [unbiased_labels(each) for each in releases]
    if scores is None:
        names = [f"share of {name}" for name in releases[0].classes]
        columns = [[part[:, number] for part in labels] for number in range(len(names))]
        tests = 1 if len(names) == 2 else len(names)
    else:
        chosen = [judged(*each).chosen for each in zip(releases, scores, strict=True)]
        columns = [[part[np.arange(len(part)), own]
                    for part, own in zip(labels, chosen, strict=True)]]  # fmt: skip
        names, tests = ["accuracy"], 1
    return [
        Change(
            name,
            [share_with_interval(*part) for part in zip(column, values, strict=True)],
            min(1.0, tests * _p_value(column)),
        )
        for name, column in zip(names, columns, strict=True)
    ]


def _p_value(parts: Sequence[NDArray[np.float64]]) -> float:
    """Returns the p-value of the test that the means of all parts are equal."""
    means = np.array([part.mean() for part in parts])
    # Where all estimates are alike, one that differs from them might still have come.
    spread = [max(part.var(ddof=1), 1 / len(part)) / len(part) for part in parts]
    weight = 1 / np.array(spread)
    common = (weight @ means) / weight.sum()
    return float(chi2.sf(weight @ (means - common) ** 2, len(parts) - 1))


def draw_changes(series: Sequence[Change], names: Sequence[str], path: Path) -> None:
    """Writes a picture of the shares in all releases, with their 95 % intervals.

    Args:
        series: as `changes` returns them.
        names: T, of the releases.
        path: ends in .png, .pdf or .svg.
    """
    from matplotlib.figure import Figure  # half a second, which the other commands need not wait

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for number, each in enumerate(series):
        value, low, high = np.array([[one.value, one.low, one.high] for one in each.estimates]).T
        places = np.arange(len(value)) + 0.04 * (number - (len(series) - 1) / 2)
        axes.errorbar(places, value, [value - low, high - value], fmt="o-", markersize=4,
                      capsize=2, label=each.name)  # fmt: skip
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_ylim(0, 1)
    axes.legend(frameon=False)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=150, format=path.suffix[1:])
