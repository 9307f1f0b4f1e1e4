"""Audit a mechanism of this library: its formula exactly, its sampler by draws.

Example:
  labeldp audit rappor --eps 1 --classes 10

Prints what is claimed, the worst log ratio of the formula, what draws of every sampler show, and
the verdict. Exit status 1: the claim does not hold. A randomiser of your own: labeldp verify.
"""

import argparse
from collections.abc import Callable
from functools import partial

from labeldp import mechanisms
from labeldp.cli.arguments import number, numbers
from labeldp.mechanisms import Measurement
from labeldp.named_mechanisms import CLASS_MECHANISMS, REAL_MECHANISMS
from labeldp.support.validate import InputError, check_choice, check_eps, check_integer

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
    "topk_subset": mechanisms.TopKSubset,
}
"""All measurements with a claim, at their default parameters."""
MOST_CLASSES = 10_000
"""Their square still fits into memory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("mechanism", metavar="MECHANISM", help=", ".join(sorted(MEASUREMENTS)))
    parser.add_argument("--eps", type=number, required=True, help="the eps that it claims")
    parser.add_argument("--classes", type=int, default=10, metavar="K",
                        help="how many classes, 2 to 10,000; default 10")  # fmt: skip
    parser.add_argument("--prior", type=numbers, metavar="A,B,...",
                        help="share of each class; default: two priors")  # fmt: skip
    parser.add_argument("--draws", type=int, default=1_000_000, metavar="N",
                        help="of each sampler; default a million")  # fmt: skip


def run(given: argparse.Namespace) -> int:
    """Prints claimed, found and verdict."""
    eps = check_eps(given.eps, "--eps")
    check_integer("--classes", given.classes, low=2, high=MOST_CLASSES)
    check_integer("--draws", given.draws, low=4 * given.classes)
    measurement = MEASUREMENTS[check_choice("MECHANISM", given.mechanism, sorted(MEASUREMENTS))]
    return print_audit(
        given.mechanism, measurement(eps=eps), given.classes, given.prior, given.draws
    )


def print_audit(
    name: str,
    measurement: Measurement,
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
