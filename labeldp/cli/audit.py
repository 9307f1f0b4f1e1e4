"""Audit a mechanism of this library: its formula exactly, its sampler by draws.

Example:
  labeldp audit rappor --eps 1 --classes 10

Prints what is claimed, the worst log ratio of the formula, what draws of every sampler show, and
the verdict: a formula can hold, draws can only find no fault. Exit status 1: the claim does not
hold. A randomiser of your own: labeldp verify.
"""

import argparse
from typing import TYPE_CHECKING

from labeldp.cli.arguments import number, numbers
from labeldp.support.validate import InputError, check_choice, check_eps, check_integer

if TYPE_CHECKING:  # --help and wrong options answer before torch is there
    from labeldp.mechanisms import Measurement

MOST_CLASSES = 10_000
"""Their square still fits into memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "mechanism",
        metavar="MECHANISM",
        help="such as rr, rappor or pate_fm; a name that is none lists all",
    )
    parser.add_argument("--eps", type=number, required=True, help="the eps that it claims")
    parser.add_argument("--classes", type=int, default=10, metavar="K",
                        help="how many classes, 2 to 10,000; default 10")  # fmt: skip
    parser.add_argument("--prior", type=numbers, metavar="A,B,...",
                        help="share of each class; default: two priors")  # fmt: skip
    parser.add_argument("--draws", type=int, default=1_000_000, metavar="N",
                        help="of each sampler; default a million")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints claimed, found and verdict."""
    from labeldp.named_mechanisms import MEASUREMENTS, measurement

    eps = check_eps(given.eps, "--eps")
    check_integer("--classes", given.classes, low=2, high=MOST_CLASSES)
    check_integer("--draws", given.draws, low=4 * given.classes)
    name = check_choice("MECHANISM", given.mechanism, sorted(MEASUREMENTS))
    return print_audit(name, measurement(name, eps), given.classes, given.prior, given.draws)


def print_audit(
    name: str,
    measurement: "Measurement",
    num_classes: int,
    prior: list[float] | None,
    draws: int,
    seed: int = 0,
) -> int:
    """Prints the audit of a measurement and returns the exit status.

    Args:
        name: what it is called.
        measurement: what is audited.
        num_classes: K, of mechanisms for classes.
        prior: share of each class, for mechanisms for classes; None for several.
        draws: of each sampler.
        seed: of the audit.

    Raises:
        InputError: a prior that it does not take.
    """
    import torch

    from labeldp import mechanisms
    from labeldp.audit.audit import audit
    from labeldp.mechanisms.base import check_global_prior

    is_of_classes = isinstance(measurement, mechanisms.ClassMechanism)
    shares = None
    if prior is not None:
        if not is_of_classes:
            raise InputError(f"{name} takes no prior over classes")
        shares = check_global_prior(torch.tensor(prior, dtype=torch.float64), num_classes)
    classes = f", {num_classes} classes" if is_of_classes else ""
    print(f"mechanism  {name} ({measurement}){classes}", flush=True)
    if isinstance(measurement, mechanisms.LabelEnhancement):
        print("claimed    nothing: no guarantee")
        print("found      no eps to search for: what it publishes follows from the true labels")
        print("verdict    no claim")
        return 0
    found = audit(measurement, num_classes, shares, draws, seed)
    print("\n".join(found.lines()))
    return 1 if found.faults else 0
