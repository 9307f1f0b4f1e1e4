"""The mechanisms that release one label without a prior, by their names on the command line."""

import importlib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

import yaml

from labeldp.mechanisms import ClassMechanism, Laplace, RealMechanism, UnbiasedRandomizer
from labeldp.support.validate import InputError, check_choice, did_you_mean
from labeldp_bench.support.checkout import CONFIGS

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

    Raises:
        InputError: a file names no mechanism, as one of your own may before it is ready.
    """
    return {name: kind for name, (kind, _) in _found().items()}


@cache
def _found() -> dict[str, tuple[type[ClassMechanism], dict[str, Any]]]:
    """Returns class and parameters of `class_mechanisms`, as their files say."""
    found = {}
    for path in sorted((CONFIGS / "mechanism").glob("*.yaml")):
        try:
            config = yaml.safe_load(path.read_text())
            if "defaults" in config:
                continue
            own = config["mechanism"]
            module, _, name = own["_target_"].rpartition(".")
            kind = getattr(importlib.import_module(module), name)
            is_one = issubclass(kind, ClassMechanism)
        except Exception as error:  # a file of the user's own, with code of the user's own
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(f"{path} names no mechanism: {reason}") from None
        if is_one:
            found[path.stem] = (kind, own)
    return found


def class_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> ClassMechanism:
    """Returns the mechanism of class labels that has this name.

    A parameter without a default is as its file says, unless it is given.

    Raises:
        InputError: no such name or parameter, or a wrong value.
    """
    known = _found()
    kind, said = known[check_choice("mechanism", name, known)]
    asked = [each.name for each in fields(kind) if each.init and each.default is MISSING]
    said = {key: said[key] for key in asked if key in said and key != "eps"}
    return _built({name: kind}, name, eps, {**said, **parameters})


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
