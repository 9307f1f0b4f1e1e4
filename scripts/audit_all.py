"""Writes results/audits/exact.csv: claimed and found eps of every mechanism, for several K and eps.

    python scripts/audit_all.py

Loops over `labeldp audit` and configs/mechanism, formulas only: the worst log ratio under a skewed
prior, p_i proportional to (i + 1)^2. Exit status 1: a formula exceeds its claim. Half a minute.
"""

import sys
from dataclasses import replace
from typing import Any

import hydra
import pandas as pd

from labeldp.audit.audit import TOLERANCE, skewed_prior
from labeldp.audit.exact import formula_epsilon
from labeldp.mechanisms import ClassMechanism, ClippingMechanism, LabelEnhancement
from labeldp.named_mechanisms import MEASUREMENTS
from labeldp.support.files import write_text
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.experiments.compose import compose_cell, mechanism_names
from labeldp_bench.support.checkout import CHECKOUT

OUT = CHECKOUT / "results" / "audits" / "exact.csv"
CLASSES = (2, 10, 100)
BUDGETS = (0.1, 1.0, 4.0, 8.0)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the table and returns the exit status."""
    read_arguments(arguments, {})
    measurements: dict[str, Any] = {name: build(eps=1.0) for name, build in MEASUREMENTS.items()}
    for name in mechanism_names():
        config = compose_cell([f"mechanism={name}"]).config["mechanism"]
        measurements[name] = hydra.utils.instantiate(config, _convert_="all")
    rows = []
    for name, measurement in sorted(measurements.items()):
        if isinstance(measurement, LabelEnhancement) or not measurement.private:
            continue
        if isinstance(measurement, ClippingMechanism):
            measurement = replace(measurement, clip=1.0)  # what is found does not depend on it
        for classes in CLASSES if isinstance(measurement, ClassMechanism) else (None,):
            for eps in BUDGETS:
                try:
                    at_eps = replace(measurement, eps=eps)
                    prior = skewed_prior(classes) if classes else None
                    found, _ = formula_epsilon(at_eps, classes or 3, prior)
                except InputError:  # it refuses the case
                    continue
                trust = (at_eps.trust, at_eps.protects, at_eps.delta)
                rows.append((name, *trust, classes, eps, found, found <= eps + TOLERANCE))
    columns = ["mechanism", "trust", "protects", "delta", "classes", "claimed", "found", "holds"]
    table = pd.DataFrame(rows, columns=columns).astype({"classes": "Int64"})
    write_text(OUT, table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    print(f"{len(table)} claims of {table.mechanism.nunique()} mechanisms: {OUT.name}")
    print(table[~table.holds].to_string(index=False) if not table.holds.all() else "all hold")
    return int(not table.holds.all())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
