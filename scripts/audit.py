"""Privacy audit of one mechanism: what it claims, what is found, whether the claim holds.

    python scripts/audit.py mechanism=rappor eps=1 num_classes=10
    python scripts/audit.py mechanism=subset_selection eps=2 num_classes=100 mechanism.size=5

Exit status 0: the claim holds, or there is none; 1: it does not; 2: bad input. Further keys:
`prior=[0.5,0.3,0.2]` (global), `draws`, `seed`, and every parameter as `mechanism.<name>`.
Mechanisms for real labels are audited at the breakpoints of their density for labels in [-1, 1];
mechanisms that answer about groups over every pair of neighbouring small data sets.
"""

import math
import sys
from typing import Any

import hydra
import torch
import yaml
from hydra.errors import InstantiationException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from labeldp_bench.cli.script import command
from labeldp_bench.experiments.compose import compose_cell, mechanism_names
from labeldp_bench.mechanisms import (
    ClassMechanism,
    GroupMechanism,
    LabelEnhancement,
    Mechanism,
    RealMechanism,
)
from labeldp_bench.mechanisms.classes import check_global_prior
from labeldp_bench.privacy.audits.groups import group_epsilon
from labeldp_bench.privacy.audits.mechanism import (
    exact_epsilon,
    exact_real_epsilon,
    sampled_epsilon,
)
from labeldp_bench.support.validate import (
    InputError,
    check_choice,
    check_eps,
    check_integer,
    did_you_mean,
)

DEFAULTS: dict[str, Any] = {
    "mechanism": None, "eps": 1.0, "num_classes": 10, "prior": None, "draws": 200_000, "seed": 0,
}  # fmt: skip
CONFIDENCE = 0.99
MOST_CLASSES = 10_000  # their square still fits into memory


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the audit and returns the exit status."""
    options, parameters = parse(arguments)
    mechanism = build(options["mechanism"], options["eps"], parameters)
    if isinstance(mechanism, RealMechanism | GroupMechanism):
        return audit_other(mechanism, options)
    if isinstance(mechanism, ClassMechanism):
        return audit(mechanism, options)
    raise InputError(
        f"mechanism={options['mechanism']} releases no single labels: there is nothing to audit"
    )


def parse(arguments: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the audit's own options and the parameters `mechanism.<name>`."""
    options, parameters = dict(DEFAULTS), {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or not key:
            raise InputError(f"cannot read {argument!r} (write key=value; --help shows which)")
        try:
            value = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={text}"]))["value"]  # type: ignore[index, call-overload]
        except (OmegaConfBaseException, yaml.YAMLError) as error:
            raise InputError(f"{key} cannot be read: {str(error).splitlines()[0]}") from error
        # YAML spells infinity `.inf`; here and in Hydra it is `inf`.
        value = math.inf if value == "inf" else value
        if key == "mechanism.eps":
            raise InputError("eps is given as eps=<x>, not as mechanism.eps")
        if key.startswith("mechanism."):
            parameters[key.removeprefix("mechanism.")] = value
        elif key in DEFAULTS:
            options[key] = value
        else:
            known = ", ".join([*DEFAULTS, "mechanism.<name>"])
            raise InputError(f"unknown key {key}; keys: {known}{did_you_mean(key, DEFAULTS)}")
    if options["mechanism"] is None:
        raise InputError("mechanism must be given, such as mechanism=rappor")
    options["eps"] = check_eps(options["eps"])
    check_integer("seed", options["seed"], low=0)
    num_classes = check_integer("num_classes", options["num_classes"], low=2, high=MOST_CLASSES)
    check_integer("draws", options["draws"], low=4 * num_classes)
    return options, parameters


def build(name: str, eps: float, parameters: dict[str, Any]) -> Mechanism:
    """Returns the mechanism that configs/mechanism/<name>.yaml describes."""
    check_choice("mechanism", name, mechanism_names())
    check_eps(eps)
    config = compose_cell([f"mechanism={name}", f"eps={eps}"]).config["mechanism"]
    try:
        return hydra.utils.instantiate({**config, **parameters}, _convert_="all")
    except (InstantiationException, OmegaConfBaseException) as error:
        cause = str(error.__cause__ or error).splitlines()[0]
        raise InputError(f"mechanism={name}: {cause}") from error


def read_prior(options: dict[str, Any]) -> Tensor | None:
    """Returns the prior as float64 (K,), or None if none is given."""
    prior = options["prior"]
    if prior is None:
        return None
    try:
        return check_global_prior(torch.tensor(prior, dtype=torch.float64), options["num_classes"])
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"prior must be a list of numbers, got {prior!r}") from error


def audit(mechanism: ClassMechanism, options: dict[str, Any]) -> int:
    """Prints claimed, found and verdict; returns the exit status."""
    num_classes, given = options["num_classes"], read_prior(options)
    # Under a uniform prior RRWithPrior and BlockRR are plain randomised response: a skewed one too.
    priors = {"skewed": skewed_prior(num_classes), "uniform": None}
    priors = {"given": given} if given is not None else priors
    makes_claim = mechanism.private and math.isfinite(mechanism.eps)
    if isinstance(mechanism, LabelEnhancement):
        print(f"mechanism  {options['mechanism']} ({mechanism}), {num_classes} classes")
        print("claimed    nothing: no guarantee")
        print("found      no eps to search for: what it publishes follows from the true labels")
        print("           (scripts/attack.py measures what that gives away)\nverdict    no claim")
        return 0
    found = {name: exact_epsilon(mechanism, num_classes, prior) for name, prior in priors.items()}
    worst = max(found, key=lambda name: found[name])
    exact, prior = found[worst], priors[worst]
    print(f"mechanism  {options['mechanism']} ({mechanism}), {num_classes} classes")
    print(f"claimed    {f'eps = {mechanism.eps:g}' if makes_claim else 'nothing'}")
    print(f"found      eps = {exact:.9g} exactly, from the likelihood ({worst} prior)")
    if not makes_claim:
        print("verdict    no claim")
        return 0
    sampled = sampled_epsilon(
        mechanism, num_classes, options["draws"], options["seed"], CONFIDENCE, prior
    )
    print(f"           eps >= {sampled:.4g} with {CONFIDENCE:.0%} confidence, from draws alone")
    if exact > mechanism.eps + 1e-9 or sampled > mechanism.eps:
        print("verdict    the claim DOES NOT HOLD")
        return 1
    is_tight = exact > mechanism.eps - 1e-9
    print(f"verdict    the claim holds{', and is tight' if is_tight else ''}")
    return 0


def audit_other(mechanism: RealMechanism | GroupMechanism, options: dict[str, Any]) -> int:
    """Prints claimed, found and verdict of a mechanism for real labels or groups."""
    if options["prior"] is not None:
        raise InputError(f"mechanism={options['mechanism']} takes no prior over classes")
    if isinstance(mechanism, RealMechanism):
        found, how = exact_real_epsilon(mechanism), "from the density at its breakpoints"
    else:
        found = group_epsilon(mechanism, min(options["num_classes"], 3))
        how = f"over neighbouring small data sets, {mechanism.trust}, protects {mechanism.protects}"
    print(f"mechanism  {options['mechanism']} ({mechanism})")
    if not math.isfinite(mechanism.eps):
        print("claimed    nothing\nverdict    no claim")
        return 0
    print(f"claimed    eps = {mechanism.eps:g}\nfound      eps = {found:.9g}, {how}")
    if found > mechanism.eps + 1e-9:
        print("verdict    the claim DOES NOT HOLD")
        return 1
    is_tight = found > mechanism.eps - 1e-9
    print(f"verdict    the claim holds{', and is tight' if is_tight else ''}")
    return 0


def skewed_prior(num_classes: int) -> Tensor:
    """Returns p_i proportional to (i + 1)^2, float64 (K,)."""
    prior = torch.arange(1.0, num_classes + 1, dtype=torch.float64) ** 2
    return prior / prior.sum()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
