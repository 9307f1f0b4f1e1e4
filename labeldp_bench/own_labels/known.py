"""The mechanisms that release one label without a prior, by their names on the command line."""

import importlib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import yaml

from labeldp_bench.mechanisms import ClassMechanism, Laplace, RealMechanism, UnbiasedRandomizer
from labeldp_bench.support.checkout import CONFIGS
from labeldp_bench.support.validate import InputError, check_choice, did_you_mean

REAL: dict[str, type[RealMechanism]] = {
    "laplace": Laplace,
    "unbiased_randomizer": UnbiasedRandomizer,
}
"""Those of numbers whose release has the true number as its mean."""


@cache
def class_mechanisms() -> dict[str, type[ClassMechanism]]:
    """Returns the mechanisms of class labels that need no prior, by name.

    They are the files of configs/mechanism that bring no learner of their own: each label is
    released once, on its own.
    """
    found = {}
    for path in sorted((CONFIGS / "mechanism").glob("*.yaml")):
        config = yaml.safe_load(path.read_text())
        if "defaults" in config:
            continue
        module, _, name = config["mechanism"]["_target_"].rpartition(".")
        kind = vars(importlib.import_module(module))[name]
        if issubclass(kind, ClassMechanism):
            found[path.stem] = kind
    return found


def class_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> ClassMechanism:
    """Returns the mechanism of class labels that has this name.

    Raises:
        InputError: no such name or parameter, or a wrong value.
    """
    return _built(class_mechanisms(), name, eps, parameters)


def real_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> RealMechanism:
    """Returns the mechanism of numbers that has this name; errors as `class_mechanism`."""
    return _built(REAL, name, eps, parameters)


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
