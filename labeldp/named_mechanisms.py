"""Mechanisms by their names on the command line, and the distribution of each in plain numbers."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from labeldp import mechanisms
from labeldp.mechanisms import (
    AdditiveLaplace,
    ClassMechanism,
    HadamardResponse,
    Laplace,
    LocalHashing,
    Measurement,
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
from labeldp.mechanisms.answers import AnswerTable
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
DESIGNS: dict[str, type[AnswerTable]] = dict.fromkeys(
    ("forced_response", "table", "unrelated_question", "warner"), AnswerTable
)
"""Those of people who randomise their own answers; built by `labeldp.designs`."""
REAL_MECHANISMS: dict[str, type[RealMechanism]] = {
    "laplace": Laplace,
    "unbiased_randomizer": UnbiasedRandomizer,
}
"""Those of numbers whose release has the true number as its mean."""
MEASUREMENTS: dict[str, Callable[..., Measurement]] = {
    **{name: build for name, build in CLASS_MECHANISMS.items() if name != "none"},
    **REAL_MECHANISMS,
    "blockrr": partial(mechanisms.BlockRR, sigma=1.2),
    "cube_means": mechanisms.CubeMeans,
    "exponential_cubes": mechanisms.ExponentialCubes,
    "full_cube_means": mechanisms.FullCubeMeans,
    "full_exponential_cubes": mechanisms.FullExponentialCubes,
    "histogram": mechanisms.LaplaceHistogram,
    "labeldp_pro": mechanisms.LabelDPPro,
    "local_full": mechanisms.LocalFull,
    "noisy_clusters": mechanisms.NoisyClusters,
    "noisy_moments": mechanisms.NoisyMoments,
    "pate_fm": mechanisms.PateFM,
    "rp_with_prior": mechanisms.RPWithPrior,
    "rr_on_bins": mechanisms.RROnBins,
    "rrwithprior": mechanisms.RandomizedResponseWithPrior,
}
"""All measurements with a claim, by name, built from eps at their default parameters."""


def class_mechanism(name: str, eps: float, parameters: Mapping[str, Any]) -> ClassMechanism:
    """Returns the mechanism of class labels that has this name.

    Raises:
        InputError: No such name or parameter, or a wrong value.
    """
    return _built(DESIGNS if name in DESIGNS else CLASS_MECHANISMS, name, eps, parameters)


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


def parameters_of(mechanism: ClassMechanism | RealMechanism) -> dict[str, Any]:
    """Returns the parameters that a mechanism was built with, without eps."""
    own = {each.name for each in fields(mechanism) if each.init} - {"eps"}
    return {name: value for name, value in vars(mechanism).items() if name in own}


def law_of(mechanism: ClassMechanism, num_classes: int) -> dict[str, Any]:
    """Returns `mechanism.law(num_classes)`: how one label is released, in plain numbers."""
    return mechanism.law(num_classes)
