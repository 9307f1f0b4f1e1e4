"""What each mechanism would tell of the labels, before any is released."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labeldp.information import Information, information
from labeldp.named_mechanisms import CLASS_MECHANISMS, class_mechanism
from labeldp.names import as_python
from labeldp.support.validate import InputError, check_eps, check_integer

if TYPE_CHECKING:
    import pandas as pd  # half a second, which releases need not wait for

MOST_CLASSES = 10_000
"""The known data sets have 100 at most; with this many a plan takes seconds."""
NEAR = 0.98
"""Of the most bits: mechanisms this near are as good, and the simplest of them is taken."""
SIMPLEST = ("rr", "subset_selection", "rappor")
"""Whose release people understand at once: a label, a short list, a bit for each class."""


@dataclass(frozen=True)
class Plan:
    """What the releases would be worth.

    Attributes:
        table: a row for each mechanism, the most informative first: mechanism, bits_per_label,
            effective_labels (how many true labels all releases are worth).
        mechanism: that is recommended.
        eps: that was given.
    """

    table: "pd.DataFrame" = field(repr=False)
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
    import pandas as pd

    num_rows = check_integer("num_rows", as_python(num_rows), low=1)
    num_classes = check_integer("num_classes", as_python(num_classes), low=2, high=MOST_CLASSES)
    eps = as_python(eps)
    check_eps(eps)
    shares = check_shares("class_shares", class_shares, num_classes)
    told = _of_all(num_classes, eps, shares)
    rows = [[name, each.bits, num_rows * each.share] for name, each in told.items()]
    table = pd.DataFrame(rows, columns=["mechanism", "bits_per_label", "effective_labels"])
    table = table.sort_values("bits_per_label", ascending=False).reset_index(drop=True)
    return Plan(table, _simplest(told), float(eps))


def recommended(num_classes: int, eps: float) -> str:
    """Returns the simplest mechanism among those that tell the most; without privacy `none`."""
    return _simplest(_of_all(num_classes, eps, None))


def _of_all(
    num_classes: int, eps: float, class_shares: tuple[float, ...] | None
) -> dict[str, Information]:
    """Returns what each private mechanism tells that takes these classes; at eps=inf `none`."""
    if math.isinf(eps):
        return {"none": information(CLASS_MECHANISMS["none"](eps), num_classes, class_shares)}
    told = {}
    for name, kind in CLASS_MECHANISMS.items():
        if kind.private and name != "lp_1st":  # the same as rr
            with contextlib.suppress(InputError):  # `optimal` above 10 classes
                told[name] = information(class_mechanism(name, eps, {}), num_classes, class_shares)
    return told


def _simplest(told: dict[str, Information]) -> str:
    most = max(each.bits for each in told.values())
    good = [name for name, each in told.items() if each.bits >= NEAR * most]
    return next((name for name in SIMPLEST if name in good), good[0])


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
