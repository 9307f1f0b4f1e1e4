"""Writes docs/audits_exact.md: claimed and found eps of every mechanism, for several K and eps.

    python scripts/audit_all.py

Exact, from the likelihood; a skewed global prior where a mechanism uses one. Mechanisms for real
labels from their density, those that answer about groups over small data sets. Half a minute.
"""

import sys
from dataclasses import replace
from pathlib import Path

import hydra
import pandas as pd

from labeldp.audit.audit import skewed_prior
from labeldp.audit.exact import formula_epsilon
from labeldp.mechanisms import (
    ClassMechanism,
    ClippingMechanism,
    FullExponentialCubes,
    GroupMechanism,
    Mechanism,
    RealMechanism,
)
from labeldp.support.files import write_text
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.experiments.compose import compose_cell, mechanism_names

DOCS = Path(__file__).resolve().parents[1] / "docs"
CLASSES = (2, 10, 100)
BUDGETS = (0.1, 1.0, 4.0, 8.0)
TOLERANCE = 1e-9
CLIP = 1.0
"""Of mechanisms that clip; what is found does not depend on it."""


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the page and prints how many claims were checked."""
    read_arguments(arguments, {})
    classes, others = {}, {}
    for name in mechanism_names():
        config = compose_cell([f"mechanism={name}"]).config["mechanism"]
        mechanism = hydra.utils.instantiate(config, _convert_="all")
        if isinstance(mechanism, ClassMechanism) and mechanism.private:
            classes[name] = {
                f"K={k}, eps={eps:g}": _found(mechanism, eps, k) for k in CLASSES for eps in BUDGETS
            }
        if not isinstance(mechanism, RealMechanism | GroupMechanism):
            continue
        if isinstance(mechanism, ClippingMechanism):
            mechanism = replace(mechanism, clip=CLIP)
        variants = {name: mechanism}
        if isinstance(mechanism, FullExponentialCubes):
            variants[f"{name}, constant=tight"] = replace(mechanism, constant="tight")
        for variant, one in variants.items():
            others[variant] = {"trust, protects": f"{one.trust}, {one.protects}"}
            others[variant] |= {f"eps={eps:g}": _found(one, eps, 3) for eps in BUDGETS}
    write_text(
        DOCS / "audits_exact.md",
        "# Exact audits\n\n"
        "After this page you know the exact eps of every mechanism here, beside its claim.\n\n"
        "The worst log ratio of any output under two labels, enumerated or at the likelihood's "
        "extreme points, next to the claim in the heading. Made by `python scripts/audit_all.py`; "
        "one mechanism at a time, with draws of its samplers beside it: `python scripts/audit.py "
        "mechanism=rappor eps=1 num_classes=10`. Priors are skewed, p_i proportional to (i + 1)^2. "
        "`=`: the claim is reached to 1e-9. `0`: under this prior one label is left, and the "
        "output says nothing. `-`: the mechanism refuses the case. A bold number would exceed "
        "its claim.\n\n"
        f"{_table(classes)}\n\n"
        "## Real labels and groups\n\n"
        "Real labels in [-1, 1], uniform prior: the worst log ratio of the densities (or "
        "probabilities) at their breakpoints; the unbiased randomiser stays 1e-6 below its eps. "
        "Mechanisms that answer about cubes: over every pair of neighbouring small data sets, "
        "where one label differs or, for those that protect features too, one whole example. There "
        "eps is reached in the limit of many labels, save by equation 33 as printed "
        "(`constant=paper`), which spends half of it ([theory.md](theory.md)).\n\n"
        f"{_table(others)}\n",
    )
    print(f"{len(classes) + len(others)} mechanisms in {DOCS / 'audits_exact.md'}")
    return 0


def _table(rows: dict[str, dict[str, str]]) -> str:
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "found"
    return str(table.to_markdown(disable_numparse=True))


def _found(mechanism: Mechanism, eps: float, num_classes: int) -> str:
    prior = skewed_prior(num_classes)
    try:
        found, _ = formula_epsilon(replace(mechanism, eps=eps), num_classes, prior)
    except InputError:
        return "-"
    if abs(found - eps) < TOLERANCE:
        return "="
    return f"{found:.4g}" if found < eps else f"**{found:.6g}**"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
