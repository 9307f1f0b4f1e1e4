"""Privacy audit of one mechanism: what it claims, whether its formula holds, what draws show.

    python scripts/audit.py mechanism=rappor eps=1 num_classes=10
    python scripts/audit.py mechanism=subset_selection eps=2 num_classes=100 mechanism.size=5

As `labeldp audit`, for every file in configs/mechanism. Exit status 0: nothing contradicts the
claim, or there is none; 1: it does not hold; 2: bad input. Further keys: `prior=[0.5,0.3,0.2]`
(global), `draws` (of each sampler), `seed`, and every parameter as `mechanism.<name>`.
`mechanism=histogram` is the noisy histogram of held-out labels. See docs/audits.md.
"""

import contextlib
import sys
from typing import Any

import hydra
import yaml
from hydra.errors import InstantiationException
from omegaconf.errors import OmegaConfBaseException

from labeldp.cli.audit import MOST_CLASSES, print_audit
from labeldp.mechanisms import LaplaceHistogram, Measurement
from labeldp.support.validate import InputError, check_choice, check_eps
from labeldp_bench.cli.script import command, integer, split_arguments
from labeldp_bench.experiments.compose import compose_cell, mechanism_names

OWN = {"mechanism": "", "eps": "1", "num_classes": "10", "prior": "", "draws": "1000000"}
HISTOGRAM = "histogram"


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints the audit and returns the exit status."""
    own, axes = split_arguments(arguments, OWN | {"seed": "0"})
    num_classes = integer("num_classes", own["num_classes"], low=2, high=MOST_CLASSES)
    draws = integer("draws", own["draws"], low=4 * num_classes)
    seed = integer("seed", own["seed"], low=0)
    prior = read("prior", own["prior"])
    if prior is not None and not (
        isinstance(prior, list) and all(isinstance(share, int | float) for share in prior)
    ):
        raise InputError(f"prior must be a list of numbers, got {own['prior']!r}")
    parameters = {}
    for key, values in axes.items():
        group, dot, name = key.partition(".")
        if group != "mechanism" or not dot or name == "eps" or len(values) > 1:
            raise InputError(f"{key} has no effect here; keys: {', '.join(OWN)}, mechanism.<name>")
        parameters[name] = read(key, values[0])
    measurement = build(own["mechanism"], own["eps"], parameters)
    return print_audit(own["mechanism"], measurement, num_classes, prior, draws, seed)


def read(key: str, text: str) -> Any:
    """Returns the value that a text spells, None for an empty one."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{key} cannot be read: {str(error).splitlines()[0]}") from error


def build(name: str, text: str, parameters: dict[str, Any]) -> Measurement:
    """Returns the mechanism that configs/mechanism/<name>.yaml describes, or the histogram."""
    if not name:
        raise InputError("mechanism must be given, such as mechanism=rappor")
    value: object = text
    with contextlib.suppress(ValueError):
        value = float(text)
    eps = check_eps(value)
    if name == HISTOGRAM:
        if parameters:
            raise InputError(f"mechanism={HISTOGRAM} takes no mechanism.{next(iter(parameters))}")
        return LaplaceHistogram(eps)
    check_choice("mechanism", name, mechanism_names())
    config = compose_cell([f"mechanism={name}", f"eps={eps}"]).config["mechanism"]
    try:
        return hydra.utils.instantiate({**config, **parameters}, _convert_="all")
    except (InstantiationException, OmegaConfBaseException) as error:
        cause = " ".join(str(error.__cause__ or error).split())
        raise InputError(f"mechanism={name}: {cause}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
