"""The mechanisms of the library by their names on the command line."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from labeldp.mechanisms import (
    AdditiveLaplace,
    ClassMechanism,
    HadamardResponse,
    Laplace,
    LocalHashing,
    NoPrivacy,
    OptimalMechanism,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    Rappor,
    RealMechanism,
    SubsetSelection,
    UnaryEncoding,
    UnbiasedRandomizer,
)
from labeldp.support.validate import InputError, check_choice, did_you_mean

CLASS_MECHANISMS: dict[str, type[ClassMechanism]] = {
    "alibi": AdditiveLaplace,
    "hadamard": HadamardResponse,
    "local_hashing": LocalHashing,
    "lp_1st": RandomizedResponse,
    "none": NoPrivacy,
    "optimal": OptimalMechanism,
    "oue": OptimizedUnaryEncoding,
    "rappor": Rappor,
    "rr": RandomizedResponse,
    "subset_selection": SubsetSelection,
    "unary": UnaryEncoding,
}
"""Those of class labels that need no prior; each label is released once, on its own."""
REAL_MECHANISMS: dict[str, type[RealMechanism]] = {
    "laplace": Laplace,
    "unbiased_randomizer": UnbiasedRandomizer,
}
"""Those of numbers whose release has the true number as its mean."""


def class_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> ClassMechanism:
    """Returns the mechanism of class labels that has this name.

    Raises:
        InputError: No such name or parameter, or a wrong value.
    """
    return _built(CLASS_MECHANISMS, name, eps, parameters)


def real_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> RealMechanism:
    """Returns the mechanism of numbers that has this name; errors as `class_mechanism`."""
    return _built(REAL_MECHANISMS, name, eps, parameters)


def _built(known: Mapping[str, Any], name: str, eps: float, parameters: Mapping[str, Any]) -> Any:
    kind = known[check_choice("mechanism", name, known)]
    own = [each.name for each in fields(kind) if each.init and each.name != "eps"]
    for key in parameters:
        if key not in own:
            raise InputError(
                f"mechanism={name} has no parameter {key}{did_you_mean(key, own)}; it has "
                f"{', '.join(own) or 'none'} beside eps"
            )
    try:
        return kind(eps=eps, **parameters)
    except TypeError as error:  # one is missing
        raise InputError(f"mechanism={name}: {error}") from None
