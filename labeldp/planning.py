"""What each mechanism would tell of the labels, before any is released."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from labeldp.information import absolute_error, information_by_mechanism, simplest
from labeldp.mechanisms.response import MOST_ORDERED
from labeldp.named_mechanisms import class_mechanism
from labeldp.names import as_python
from labeldp.support.validate import InputError, check_eps, check_integer

if TYPE_CHECKING:
    import pandas as pd  # half a second, which releases need not wait for

    from labeldp.pilot import PilotPlan

MOST_CLASSES = 10_000
"""The known data sets have 100 at most; with this many a plan takes seconds."""


@dataclass(frozen=True)
class Plan:
    """What the releases would be worth.

    Attributes:
        table: a row for each mechanism, the most informative first: mechanism, bits_per_label,
            effective_labels (how many true labels all releases are worth). Of ordered classes the
            one with the least absolute_error first (how far off the best guess of a label from its
            release is, in classes, on average).
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
        best = "that tell the most of a label"
        if "absolute_error" in rows:
            rows["absolute_error"] = rows.absolute_error.map("{:.3f}".format)
            best = (
                "from whose releases a label is guessed best\nto train a model, numbers (labeldp "
                "release --bounds) often err less: see docs/mechanisms.md"
            )
        return (
            f"{rows.to_string(index=False)}\n\nrecommended: {self.mechanism}, the simplest among "
            f"those {best}"
        )


@overload
def plan(
    num_rows: int, num_classes: int, eps: float, class_shares: Sequence[float] | None = None, *,
    ordinal: bool = False,
) -> Plan: ...  # fmt: skip


@overload
def plan(
    num_rows: int, *, pilot: tuple[Any, Any], eps: Sequence[float] | float | None = None,
    accuracy: float | None = None, model: Any = None,
) -> "PilotPlan": ...  # fmt: skip


def plan(
    num_rows: int, num_classes: Any = None, eps: Any = None,
    class_shares: Sequence[float] | None = None, *, pilot: tuple[Any, Any] | None = None,
    accuracy: float | None = None, model: Any = None, ordinal: bool = False,
) -> "Plan | PilotPlan":  # fmt: skip
    """Returns what each mechanism would tell, and which is recommended. Looks at no label.

    With a pilot, a sample of rows whose labels may be used, it returns by simulation how good a
    model of `num_rows` releases would be at each eps.

    Args:
        num_rows: N >= 1.
        num_classes: K, 2 to `MOST_CLASSES`; a pilot has its own.
        eps: > 0; with a pilot one or several, None: 0.25 to 8.
        class_shares: K public guesses of the classes' shares; None: all classes equally frequent.
        pilot: features (n, d) and labels (n,) of the sample.
        accuracy: with a pilot: that is wanted; `.eps` of the plan is where it is expected.
        model: with a pilot: as `LabelDPClassifier`, which is the default.
        ordinal: without a pilot: whether the classes are in order, lowest first, and a guess is the
            worse the further off it is; at most `MOST_ORDERED` classes.

    Raises:
        InputError: a wrong value.

    >>> plan(num_rows=20_000, num_classes=5, eps=1.0).mechanism
    'subset_selection'
    """
    if pilot is not None:
        from labeldp.pilot import GRID, simulated_plan

        if num_classes is not None or class_shares is not None or ordinal:
            raise InputError("a pilot has its own classes, and no order (leave the rest out)")
        if not isinstance(pilot, tuple | list) or len(pilot) != 2:
            raise InputError("pilot must be (X, y), features and labels")
        tried = GRID if eps is None else [as_python(each) for each in np.atleast_1d(eps)]
        size = check_integer("num_rows", as_python(num_rows), low=10)
        return simulated_plan(*pilot, size, tried, accuracy, model)
    if accuracy is not None or model is not None:
        raise InputError("accuracy and model are for plans from a pilot (give pilot=(X, y))")
    if num_classes is None or eps is None:
        raise InputError("num_classes and eps must be given, or a pilot")
    import pandas as pd

    num_rows = check_integer("num_rows", as_python(num_rows), low=1)
    most = MOST_ORDERED if ordinal else MOST_CLASSES
    num_classes = check_integer("num_classes", as_python(num_classes), low=2, high=most)
    eps = as_python(eps)
    check_eps(eps)
    shares = check_shares("class_shares", class_shares, num_classes)
    told = information_by_mechanism(num_classes, eps, shares, ordinal)
    rows = [[name, each.bits, num_rows * each.share] for name, each in told.items()]
    table = pd.DataFrame(rows, columns=["mechanism", "bits_per_label", "effective_labels"])
    table = table.sort_values("bits_per_label", ascending=False, ignore_index=True)
    worth = {name: each.bits for name, each in told.items()}
    if ordinal:
        made = {name: class_mechanism(name, eps, {}) for name in told}
        off = {name: absolute_error(each, num_classes, shares) for name, each in made.items()}
        table["absolute_error"] = [off[name][0] for name in table.mechanism]
        table = table.sort_values("absolute_error", ignore_index=True)
        # At small eps a release may not change the best guess; rounding must not choose then.
        worth = {name: max(without - own, 1e-9) for name, (own, without) in off.items()}
    return Plan(table, simplest(worth), float(eps))


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
