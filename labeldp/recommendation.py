"""Which mechanism tells the most of a label, and is simple."""

import contextlib
import math

from labeldp.information import Information, information
from labeldp.named_mechanisms import CLASS_MECHANISMS, class_mechanism
from labeldp.support.validate import InputError

NEAR = 0.98
"""Of the most bits: mechanisms this near are as good, and the simplest of them is taken."""
SIMPLEST = ("rr", "subset_selection", "rappor")
"""Whose release people understand at once: a label, a short list, a bit for each class."""


def recommended(num_classes: int, eps: float) -> str:
    """Returns the simplest mechanism among those that tell the most; without privacy `none`."""
    return simplest(told_by_all(num_classes, eps, None))


def told_by_all(
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


def simplest(told: dict[str, Information]) -> str:
    """Returns the simplest mechanism among those that tell nearly the most."""
    most = max(each.bits for each in told.values())
    good = [name for name, each in told.items() if each.bits >= NEAR * most]
    return next((name for name in SIMPLEST if name in good), good[0])
