"""Privacy audit of one mechanism: what it claims, what is found, whether the claim holds.

    python scripts/audit.py mechanism=rappor eps=1 num_classes=10
    python scripts/audit.py mechanism=subset_selection eps=2 num_classes=100 mechanism.size=5

Two halves: the formula's worst log ratio, and draws of every sampler that a run can reach, with a
confidence bound, a comparison with the formula, and which leak the draws would have shown.
Exit status 0: the claim holds, or there is none; 1: it does not; 2: bad input. Further keys:
`prior=[0.5,0.3,0.2]` (global), `draws` (of each sampler), `seed`, and every parameter as
`mechanism.<name>`. `mechanism=histogram` is the noisy histogram of held-out labels.
Mechanisms for real labels are audited at the breakpoints of their density for labels in [-1, 1];
mechanisms that answer about groups over neighbouring small data sets; those with a delta at it. See
docs/audits.md.
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

from labeldp.audit.audit import Audit, audit
from labeldp.mechanisms import ClassMechanism, LabelEnhancement, LaplaceHistogram, Measurement
from labeldp.mechanisms.base import check_global_prior
from labeldp.support.progress import say
from labeldp.support.validate import (
    InputError,
    check_eps,
    check_integer,
    did_you_mean,
)
from labeldp_bench.cli.script import command
from labeldp_bench.experiments.compose import compose_cell, mechanism_names

DEFAULTS: dict[str, Any] = {
    "mechanism": None,
    "eps": 1.0,
    "num_classes": 10,
    "prior": None,
    "draws": 1_000_000,
    "seed": 0,
}
HISTOGRAM = "histogram"
MOST_CLASSES = 10_000  # their square still fits into memory


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the audit and returns the exit status."""
    options, parameters = parse(arguments)
    name, num_classes = options["mechanism"], options["num_classes"]
    mechanism = build(name, options["eps"], parameters)
    prior = read_prior(options)
    if prior is not None and not isinstance(mechanism, ClassMechanism):
        raise InputError(f"mechanism={name} takes no prior over classes")
    classes = f", {num_classes} classes" if isinstance(mechanism, ClassMechanism) else ""
    say(f"mechanism  {name} ({mechanism}){classes}")
    if isinstance(mechanism, LabelEnhancement):
        print("claimed    nothing: no guarantee")
        print("found      no eps to search for: what it publishes follows from the true labels")
        print("           (scripts/attack.py measures what that gives away)\nverdict    no claim")
        return 0
    return report(audit(mechanism, num_classes, prior, options["draws"], options["seed"]))


def report(found: Audit) -> int:
    """Prints an audit and returns the exit status."""
    print("\n".join(found.lines()))
    return 1 if found.faults else 0


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


def build(name: str, eps: float, parameters: dict[str, Any]) -> Measurement:
    """Returns the mechanism that configs/mechanism/<name>.yaml describes, or the histogram."""
    if name == HISTOGRAM:
        if parameters:
            raise InputError(f"mechanism={HISTOGRAM} takes no mechanism.{next(iter(parameters))}")
        return LaplaceHistogram(eps)
    known = mechanism_names()
    if name not in known:
        raise InputError(
            f"mechanism must be one of {', '.join(known)}; got {name!r}{did_you_mean(name, known)} "
            f"(one of your own needs a file configs/mechanism/{name}.yaml)"
        )
    check_eps(eps)
    config = compose_cell([f"mechanism={name}", f"eps={eps}"]).config["mechanism"]
    try:
        return hydra.utils.instantiate({**config, **parameters}, _convert_="all")
    except (InstantiationException, OmegaConfBaseException) as error:
        cause = " ".join(str(error.__cause__ or error).split())
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
