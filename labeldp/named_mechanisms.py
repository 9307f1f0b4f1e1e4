"""Mechanisms by their names on the command line, which their classes state (`known_as`)."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from labeldp import mechanisms
from labeldp.mechanisms import ClassMechanism, Measurement, NoPrivacy, RealMechanism
from labeldp.mechanisms.answers import AnswerTable
from labeldp.support.validate import InputError, check_choice, did_you_mean


def _named() -> dict[str, type[Measurement]]:
    """Returns the measurements of all files of `labeldp.mechanisms` by their names, sorted."""
    found: dict[str, type[Measurement]] = {}
    for file in pkgutil.iter_modules(mechanisms.__path__, f"{mechanisms.__name__}."):
        for kind in vars(importlib.import_module(file.name)).values():
            if isinstance(kind, type) and issubclass(kind, Measurement):
                found |= dict.fromkeys(vars(kind).get("known_as", ()), kind)
    return dict(sorted(found.items()))


NAMED = _named()
CLASS_MECHANISMS: dict[str, type[ClassMechanism]] = {
    name: kind
    for name, kind in NAMED.items()
    if issubclass(kind, ClassMechanism) and not kind.needs_prior
}
"""Those of class labels that need no prior; each label is released once, on its own."""
DESIGNS: dict[str, type[ClassMechanism]] = {
    **dict.fromkeys(("forced_response", "table", "unrelated_question", "warner"), AnswerTable),
    "identity": NoPrivacy,
}
"""Those of labels that were randomised elsewhere, or not at all; built by `labeldp.designs`."""
REAL_MECHANISMS: dict[str, type[RealMechanism]] = {
    name: kind
    for name, kind in NAMED.items()
    if issubclass(kind, RealMechanism) and kind.mean_is_label
}
"""Those of numbers whose release has the true number as its mean."""
MEASUREMENTS: dict[str, type[Measurement]] = {
    name: kind for name, kind in NAMED.items() if kind.private
}
"""All measurements with a claim; built from eps, other parameters are at their defaults."""


def class_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> ClassMechanism:
    """Returns the mechanism of class labels that has this name.

    Raises:
        InputError: No such name or parameter, or a wrong value.
    """
    return _built(DESIGNS if name in DESIGNS else CLASS_MECHANISMS, name, eps, parameters)


def real_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> RealMechanism:
    """Returns the mechanism of numbers that has this name; errors as `class_mechanism`."""
    return _built(REAL_MECHANISMS, name, eps, parameters)


def measurement(name: str, eps: float) -> Measurement:
    """Returns the measurement with a claim that has this name; errors as `class_mechanism`."""
    built: Measurement = _built(MEASUREMENTS, name, eps, {})
    return built


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


def parameters_of(mechanism: ClassMechanism | RealMechanism) -> dict[str, Any]:
    """Returns the parameters that a mechanism was built with, without eps."""
    own = {each.name for each in fields(mechanism) if each.init} - {"eps"}
    return {name: value for name, value in vars(mechanism).items() if name in own}


def law_of(mechanism: ClassMechanism, num_classes: int) -> dict[str, Any]:
    """Returns `mechanism.law(num_classes)`: how one label is released, in plain numbers."""
    return mechanism.law(num_classes)
