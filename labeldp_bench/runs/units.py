"""Units of privacy with several labels: each label is released with its share of eps."""

from dataclasses import fields, is_dataclass, replace

from labeldp.mechanisms.base import Mechanism
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Learner


def share_of_unit(mechanism: Mechanism, labels_per_unit: int) -> Mechanism:
    """Returns the mechanism with eps / labels_per_unit: a unit with that many spends eps.

    Releases of different labels of one unit add up (sequential composition), so this holds for
    local and central mechanisms alike.

    Raises:
        InputError: the mechanism has no eps of its own to divide, or a delta.
    """
    if labels_per_unit == 1 or not mechanism.private:
        return mechanism
    known = {field.name for field in fields(mechanism) if field.init}
    if "eps" not in known or mechanism.delta:
        raise InputError(
            f"dataset.rows_per_unit={labels_per_unit} divides eps among the rows of a unit, and "
            f"{type(mechanism).__name__} has no pure eps to divide (use dataset.rows_per_unit=1)"
        )
    return replace(mechanism, eps=mechanism.eps / labels_per_unit)


def learner_of_unit(learner: Learner, labels_per_unit: int) -> Learner:
    """Returns the learner with the same share for the mechanisms that it brings itself."""
    if not is_dataclass(learner):
        return learner
    own = {field.name: getattr(learner, field.name) for field in fields(learner) if field.init}
    shares = {
        name: share_of_unit(part, labels_per_unit)
        for name, part in own.items()
        if isinstance(part, Mechanism)
    }
    return replace(learner, **shares) if shares else learner
