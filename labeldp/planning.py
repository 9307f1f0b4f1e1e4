"""What each mechanism would tell of the labels, before any is released."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from labeldp.named_mechanisms import all_informativeness, recommended
from labeldp.names import as_python
from labeldp.support.validate import InputError, check_eps, check_integer

MOST_CLASSES = 10_000
"""The known data sets have 100 at most; with this many a plan takes seconds."""


@dataclass(frozen=True)
class Plan:
    """What the releases would be worth.

    Attributes:
        table: a row for each mechanism, the most informative first: mechanism, bits_per_label,
            effective_labels (how many true labels all releases are worth).
        mechanism: that is recommended.
        eps: that was given.
    """

    table: pd.DataFrame = field(repr=False)
    mechanism: str
    eps: float

    def text(self) -> str:
        """Returns the plan for a terminal."""
        rows = self.table.copy()
        rows["bits_per_label"] = rows.bits_per_label.map("{:.3g}".format)
        rows["effective_labels"] = rows.effective_labels.map("{:,.0f}".format)
        return (
            f"{rows.to_string(index=False)}\n\nrecommended: {self.mechanism}, the simplest among "
            "those that tell the most of a label"
        )


def plan(
    num_rows: int,
    num_classes: int,
    eps: float,
    class_shares: Sequence[float] | None = None,
) -> Plan:
    """Returns what each mechanism would tell, and which is recommended. Looks at no label.

    Args:
        num_rows: N >= 1.
        num_classes: K, 2 to `MOST_CLASSES`.
        eps: > 0.
        class_shares: K public guesses of the classes' shares; None: all classes equally frequent.

    Raises:
        InputError: a wrong value.

    >>> plan(num_rows=20_000, num_classes=5, eps=1.0).mechanism
    'subset_selection'
    """
    num_rows = check_integer("num_rows", as_python(num_rows), low=1)
    num_classes = check_integer("num_classes", as_python(num_classes), low=2, high=MOST_CLASSES)
    eps = as_python(eps)
    check_eps(eps)
    shares = check_shares("class_shares", class_shares, num_classes)
    best = recommended(num_classes, eps, shares)
    if math.isinf(eps):
        found = {"none": (_entropy(shares, num_classes), 1.0)}
    else:
        found = all_informativeness(num_classes, eps, shares)
    rows = [[name, bits, num_rows * share] for name, (bits, share) in found.items()]
    table = pd.DataFrame(rows, columns=["mechanism", "bits_per_label", "effective_labels"])
    table = table.sort_values("bits_per_label", ascending=False).reset_index(drop=True)
    return Plan(table, best, float(eps))


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
