"""What to expect of a release before it is made, and which eps an accuracy needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from labeldp_bench.own_labels.simulation import simulated_accuracies
from labeldp_bench.own_labels.strength import SIMPLEST, recommended, strengths
from labeldp_bench.support.validate import (
    InputError,
    check_eps,
    check_integer,
    check_number,
)

EPS_RANGE = (0.01, 20.0)
STEPS = 10
"""Halvings of the range of log eps: to within one percent of eps."""


@dataclass(frozen=True)
class Plan:
    """What is to be expected.

    Attributes:
        table: a row for each mechanism, the most informative first: mechanism, bits_per_label,
            effective_labels (how many true labels all releases are worth), accuracy_low,
            accuracy_high.
        mechanism: that is recommended.
        eps: that was given, or that the accuracy needs.
        accuracy_low, accuracy_high: of the recommended one. Four of five runs of the benchmark
            with as many effective labels for each class lie between; with features, all made-up
            labels do.
        basis: what the range rests on.
    """

    table: pd.DataFrame = field(repr=False)
    mechanism: str
    eps: float
    accuracy_low: float
    accuracy_high: float
    basis: str

    def text(self) -> str:
        """Returns the plan for a terminal."""
        rows = self.table.copy()
        rows["bits_per_label"] = rows.bits_per_label.map("{:.3g}".format)
        rows["effective_labels"] = rows.effective_labels.map("{:,.0f}".format)
        low = (100 * rows.pop("accuracy_low")).map("{:.0f}".format)
        rows["accuracy"] = low + " to " + (100 * rows.pop("accuracy_high")).map("{:.0f} %".format)
        return (
            f"{rows.to_string(index=False)}\n\nrecommended: {self.mechanism}, the simplest among "
            f"those that tell the most of a label\naccuracy: {self.accuracy_low:.0%} to "
            f"{self.accuracy_high:.0%} ({self.basis})"
        )


def plan(
    num_rows: int,
    num_classes: int,
    eps: float | None = None,
    accuracy: float | None = None,
    class_shares: Sequence[float] | None = None,
    X: Any = None,
) -> Plan:
    """Returns what each mechanism would tell, and the accuracy to be expected.

    Looks at no label. Without features the range is that of the benchmark's committed runs: their
    tasks differ in difficulty, so it is wide. With features, labels are made up that the features
    explain (groups of rows, and random linear rules), released and learnt.

    Args:
        num_rows: N >= 1.
        num_classes: K >= 2.
        eps: > 0; or give `accuracy`.
        accuracy: in (1/K, 1): finds the smallest eps whose middle of the range reaches it.
        class_shares: K public guesses of the classes' shares; None: equal.
        X: public features, (n, d) numbers.

    Raises:
        InputError: a wrong value, or an accuracy that no eps reaches.

    >>> plan(num_rows=20_000, num_classes=5, eps=1.0).mechanism
    'subset_selection'
    """
    check_integer("num_rows", num_rows, low=1)
    check_integer("num_classes", num_classes, low=2)
    if (eps is None) == (accuracy is None):
        raise InputError("plan needs either eps or accuracy")
    shares = _checked_shares(class_shares, num_classes)
    if accuracy is not None:
        eps = _eps_for(num_rows, num_classes, accuracy, shares)
    assert eps is not None
    check_eps(eps)
    best = recommended(num_classes, eps, shares)
    if math.isinf(eps):
        found = {"none": (_entropy(shares, num_classes), 1.0)}
    else:
        found = strengths(num_classes, eps, shares)
    rows = []
    for name, (bits, share) in found.items():
        low, _, high = predicted(num_rows * share / num_classes, num_classes, shares)
        rows.append([name, bits, num_rows * share, low, high])
    names = ["mechanism", "bits_per_label", "effective_labels", "accuracy_low", "accuracy_high"]
    table = pd.DataFrame(rows, columns=names).sort_values("bits_per_label", ascending=False)
    table = table.reset_index(drop=True)
    basis = (
        "four of five runs of the benchmark with as many effective labels; their features say "
        "nearly all of the label, which those of a survey seldom do"
    )
    low, high = table.loc[table.mechanism == best, names[3:]].to_numpy()[0]
    if X is not None:
        seen = simulated_accuracies(
            np.asarray(X, dtype=np.float64), num_rows, num_classes, eps, best
        )
        low, high = min(seen), max(seen)
        basis = f"{len(seen)} runs on labels made up from your features"
    return Plan(table, best, float(eps), float(low), float(high), basis)


def predicted(
    effective_per_class: float, num_classes: int, class_shares: Sequence[float] | None = None
) -> tuple[float, float, float]:
    """Returns the accuracy that one run of ten stays below, the middle one, and nine of ten.

    Args:
        effective_per_class: true labels for each class that the releases are worth.
        num_classes: K.
        class_shares: the most frequent class can always be guessed.
    """
    curve = _curve()
    place = math.log10(max(effective_per_class, 1e-12))
    chance = max(class_shares or [1 / num_classes])
    gains = [float(np.interp(place, curve.log10_labels, curve[name])) for name in
             ("low", "middle", "high")]  # fmt: skip
    if place < curve.log10_labels.iloc[0]:  # fewer than any run has: nothing may be learnt
        gains[0] = 0.0
    low, middle, high = (chance + (1 - chance) * gain for gain in gains)
    return low, middle, high


@cache
def _curve() -> pd.DataFrame:
    """Returns how far committed runs got from chance (0) to certainty (1), by effective labels."""
    with resources.files("labeldp_bench.own_labels").joinpath("plan_curve.csv").open() as file:
        return pd.read_csv(file)


def _eps_for(
    num_rows: int, num_classes: int, accuracy: float, shares: tuple[float, ...] | None
) -> float:
    """Returns the smallest eps whose middle prediction reaches the accuracy, by bisection."""
    chance = max(shares or [1 / num_classes])
    check_number("accuracy", accuracy, above=0, below=1)
    if accuracy <= chance:
        raise InputError(f"accuracy must be > {chance:.3g}, what guessing reaches, got {accuracy}")

    def middle(eps: float) -> float:
        found = strengths(num_classes, eps, shares)
        share = max(found[name][1] for name in SIMPLEST if name in found)
        return predicted(num_rows * share / num_classes, num_classes, shares)[1]

    low, high = EPS_RANGE
    if middle(high) < accuracy:
        raise InputError(
            f"no eps reaches an accuracy of {accuracy:g} with {num_rows:,} rows: the middle run of "
            f"the benchmark has {middle(high):.3f} (more rows, or plan with X=)"
        )
    if middle(low) >= accuracy:
        return low
    for _ in range(STEPS):
        between = math.sqrt(low * high)
        low, high = (low, between) if middle(between) >= accuracy else (between, high)
    return high


def _checked_shares(shares: Sequence[float] | None, num_classes: int) -> tuple[float, ...] | None:
    if shares is None:
        return None
    given = tuple(float(each) for each in shares)
    if len(given) != num_classes or min(given) <= 0 or abs(sum(given) - 1) > 1e-6:
        raise InputError(f"class_shares must be {num_classes} shares > 0 with sum 1, got {given}")
    return given


def _entropy(shares: tuple[float, ...] | None, num_classes: int) -> float:
    return -sum(each * math.log2(each) for each in shares or [1 / num_classes] * num_classes)
