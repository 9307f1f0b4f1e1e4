"""What to expect of a release before it is made, and which eps an accuracy needs."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp.experience import (
    expected_accuracies,
    number_known,
    range_of,
    usual_redundancy,
)
from labeldp.named_mechanisms import SLOW, all_informativeness, recommended
from labeldp.recipe import as_python
from labeldp.redundancy import redundancy
from labeldp.support.progress import progress_bar
from labeldp.support.validate import (
    InputError,
    check_eps,
    check_integer,
    check_number,
)

MOST_CLASSES = 10_000
"""The known data sets have 100 at most; with this many a plan takes seconds for each eps."""
EPS_RANGE = (0.01, 20.0)
NEAR = 0.01
"""Accuracy that is not worth a larger eps."""
STEPS = 12
"""Halvings of the range of log eps: to within a fifth of a percent of eps."""


@dataclass(frozen=True)
class Plan:
    """What is to be expected.

    Attributes:
        table: a row for each mechanism, the most informative first: mechanism, bits_per_label,
            effective_labels (how many true labels all releases are worth), accuracy_low,
            accuracy_middle, accuracy_high.
        mechanism: that is recommended.
        eps: that was given, or that the accuracy needs.
        accuracy_low, accuracy_middle, accuracy_high: of the recommended one. Nine of ten real data
            sets with as many effective labels for each class lie between the ends, half of them
            below the middle.
        basis: what the range rests on.
    """

    table: pd.DataFrame = field(repr=False)
    mechanism: str
    eps: float
    accuracy_low: float
    accuracy_middle: float
    accuracy_high: float
    basis: str

    def text(self) -> str:
        """Returns the plan for a terminal."""
        rows = self.table.copy()
        rows["bits_per_label"] = rows.bits_per_label.map("{:.3g}".format)
        rows["effective_labels"] = rows.effective_labels.map("{:,.0f}".format)
        low, middle, high = ((100 * rows.pop(name)).map("{:.0f}".format) for name in ACCURACIES)
        rows["accuracy"] = low + " to " + high + " %"
        rows["middle"] = middle + " %"
        return (
            f"{rows.to_string(index=False)}\n\nrecommended: {self.mechanism}, the simplest among "
            f"those that tell the most of a label\naccuracy: {self.accuracy_low:.0%} to "
            f"{self.accuracy_high:.0%}, the middle {self.accuracy_middle:.0%}\n{self.basis}"
        )


ACCURACIES = ("accuracy_low", "accuracy_middle", "accuracy_high")


def plan(
    num_rows: int,
    num_classes: int,
    eps: float | None = None,
    accuracy: float | None = None,
    class_shares: Sequence[float] | None = None,
    X: Any = None,
) -> Plan:
    """Returns what each mechanism would tell, and the accuracy to be expected.

    Looks at no label. Nobody can know before how much the features say of a label, so the range is
    that of real data sets, and wide. It is narrower with guesses of the class shares, and a little
    so with features: columns that say much of each other say more of a label too.

    Args:
        num_rows: N >= 1.
        num_classes: K, 2 to `MOST_CLASSES`.
        eps: > 0; or give `accuracy`.
        accuracy: in (1/K, 1): finds the smallest eps whose middle accuracy reaches it; where none
            does, the smallest that comes within `NEAR` of the most, with a warning.
        class_shares: K public guesses of the classes' shares; None: as uneven as those of other
            data sets.
        X: public features, (n, d) numbers.

    Raises:
        InputError: a wrong value, or an accuracy that not even the upper end reaches.

    >>> plan(num_rows=20_000, num_classes=5, eps=1.0).mechanism
    'subset_selection'
    """
    num_rows = check_integer("num_rows", as_python(num_rows), low=1)
    num_classes = check_integer("num_classes", as_python(num_classes), low=2, high=MOST_CLASSES)
    eps, accuracy = as_python(eps), as_python(accuracy)
    if (eps is None) == (accuracy is None):
        raise InputError("plan needs either eps or accuracy")
    shares = check_shares("class_shares", class_shares, num_classes)
    features = None if X is None else redundancy(_numbers(X))
    if accuracy is not None:
        eps = _eps_for(num_rows, num_classes, accuracy, shares, features)
    assert eps is not None
    check_eps(eps)
    best = recommended(num_classes, eps, shares)
    if math.isinf(eps):
        found = {"none": (_entropy(shares, num_classes), 1.0)}
    else:
        found = all_informativeness(num_classes, eps, shares)
    rows = []
    for name, (bits, share) in found.items():
        accuracies = predicted(name, num_rows, num_classes, eps, shares, features)
        rows.append([name, bits, num_rows * share, *accuracies])
    names = ["mechanism", "bits_per_label", "effective_labels", *ACCURACIES]
    table = pd.DataFrame(rows, columns=names).sort_values("bits_per_label", ascending=False)
    table = table.reset_index(drop=True)
    low, middle, high = table.loc[table.mechanism == best, names[3:]].to_numpy()[0]
    basis = _basis(shares, X is not None, features)
    return Plan(table, best, float(eps), float(low), float(middle), float(high), basis)


def _numbers(X: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("X must be numbers of shape (n, d) (leave texts out)") from None


def predicted(
    mechanism: str,
    num_rows: int,
    num_classes: int,
    eps: float,
    class_shares: tuple[float, ...] | None = None,
    redundancy: float | None = None,
) -> tuple[float, float, float]:
    """Returns the ends between which the accuracies of nine of ten data sets lie, and the middle.

    Effective labels are those of equally frequent classes here, as in the data sets' calibration.

    Returns:
        (low, middle, high).
    """
    share = 1.0 if math.isinf(eps) else all_informativeness(num_classes, eps)[mechanism][1]
    return range_of(
        expected_accuracies(num_rows * share / num_classes, num_classes, class_shares, redundancy)
    )


def _eps_for(
    num_rows: int,
    num_classes: int,
    accuracy: float,
    shares: tuple[float, ...] | None,
    redundancy: float | None,
) -> float:
    """Returns the smallest eps whose middle accuracy reaches the wanted one, by bisection.

    Where none does, the smallest that comes within `NEAR` of the most, with a warning.
    """
    check_above_chance("accuracy", accuracy, num_classes)

    def middle(eps: float) -> float:
        return expected(eps)[1]

    def expected(eps: float) -> tuple[float, float, float]:
        best = recommended(num_classes, eps, shares)
        return predicted(best, num_rows, num_classes, eps, shares, redundancy)

    low, high = EPS_RANGE
    _, most, upper_end = expected(high)
    if upper_end < accuracy:
        raise InputError(
            f"no eps reaches an accuracy of {accuracy:g} with {num_rows:,} rows: nineteen of "
            f"twenty real data sets stay below {upper_end:.3f} even without privacy (class shares, "
            "if they are uneven, and more rows may help)"
        )
    if most < accuracy:
        warnings.warn(
            f"an accuracy of {accuracy:g} is not to be expected at any eps with {num_rows:,} rows: "
            f"half of the real data sets stay below {most:.3f} even without privacy; beyond this "
            f"eps the middle gains less than {NEAR:g}",
            stacklevel=3,
        )
        accuracy = most - NEAR
    if middle(low) >= accuracy:
        return low
    for _ in progress_bar(range(STEPS), STEPS, "halvings of eps", shown=num_classes >= SLOW):
        between = math.sqrt(low * high)
        low, high = (low, between) if middle(between) >= accuracy else (between, high)
    return high


def _basis(shares: tuple[float, ...] | None, has_features: bool, redundancy: float | None) -> str:
    known = number_known(with_columns=redundancy is not None)
    lines = [f"nine of ten of {known} real data sets lie in this range, half of them below the "
             "middle; how much the features say of the label makes the difference"]  # fmt: skip
    if has_features:
        lines.append(
            "your columns say nothing of each other, so they do not narrow it"
            if redundancy is None
            else f"your columns say {max(0.0, redundancy):.0%} of each other (the others' median: "
            f"{usual_redundancy():.0%})"
        )
    if shares is None:
        lines.append("guesses of the class shares would narrow it")
    return "\n".join(lines)


def check_above_chance(name: str, accuracy: float, num_classes: int) -> None:
    """Refuses an accuracy that guessing reaches, or that none can be."""
    check_number(name, accuracy, above=0, below=1)
    if accuracy <= 1 / num_classes:
        raise InputError(
            f"{name} must be > {1 / num_classes:.3g}, what guessing reaches, got {accuracy}"
        )


def check_shares(
    name: str, shares: Sequence[float] | None, num_classes: int
) -> tuple[float, ...] | None:
    """Returns public guesses of the class shares, (K,); `name` is what the user calls them."""
    if shares is None:
        return None
    try:
        given = tuple(float(each) for each in shares)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be {num_classes} numbers, got {shares!r}") from None
    # NaN is neither above 0 nor near 1.
    if len(given) != num_classes or not (min(given) > 0 and abs(sum(given) - 1) <= 1e-6):
        raise InputError(f"{name} must be {num_classes} shares > 0 with sum 1, got {given}")
    return given


def _entropy(shares: tuple[float, ...] | None, num_classes: int) -> float:
    return -sum(each * math.log2(each) for each in shares or [1 / num_classes] * num_classes)
