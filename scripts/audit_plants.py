"""Plants faults of every kind and writes which audit notices: results/benchmarks/audit_plants.csv.

    python scripts/audit_plants.py

Mechanisms of each kind without a fault, without noise, with 3 % less noise, with noise for half the
sensitivity, and without their clip; votes with a wrong threshold; the vault's histogram; learners
that ask anew every epoch or peek before the release. Exit status 1 if a fault passes, or an honest
one is accused. Keys: `eps`, `draws` (of each sampler), `seed`, `out=FILE.csv`. Six minutes.
"""

import sys

import pandas as pd

from labeldp.audit.audit import Audit, audit, audit_histogram
from labeldp.audit.broken_learners import HISTOGRAMS, LEARNERS
from labeldp.audit.plants import plants
from labeldp.audit.wall import learner_faults
from labeldp.mechanisms import (
    AdditiveLaplace,
    ClippedCubeMeans,
    ClippedLaplace,
    CubeMeans,
    ExponentialCubes,
    FullCubeMeans,
    LabelDPPro,
    Laplace,
    LocalFull,
    Mechanism,
    NoisyClusters,
    NoisyMoments,
    PateFM,
    RandomizedResponse,
    Rappor,
    RPWithPrior,
    SubsetSelection,
)
from labeldp.support.files import write_text
from labeldp.support.progress import say
from labeldp_bench.cli.script import command, finite_eps, integer, output_file, read_arguments
from labeldp_bench.support.checkout import CHECKOUT

OUT = CHECKOUT / "results" / "benchmarks" / "audit_plants.csv"
CLASSES = 10


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the table and returns the exit status."""
    own = {"eps": "1", "draws": "1000000", "seed": "0", "out": str(OUT)}
    own = read_arguments(arguments, own)
    eps = finite_eps("eps", own["eps"])
    draws, seed = integer("draws", own["draws"], low=1000), integer("seed", own["seed"], low=0)
    out = output_file("out", own["out"])
    rows = []
    for name, honest in _honest(eps).items():
        for plant in plants(name, honest):
            found = audit(plant.mechanism, CLASSES, None, draws, seed)
            rows.append(_row(name, plant.fault, found))
    for fault, histogram in HISTOGRAMS.items():
        found = audit_histogram(eps, draws, seed, histogram)
        rows.append(_row("histogram of the vault", fault, found))
    for fault, learn in LEARNERS.items():
        complaints = learner_faults(learn, eps=eps)
        kinds = ["ledger" if one.startswith("a label costs") else "other labels"
                 for one in complaints]  # fmt: skip
        notices = " + ".join(kinds)
        rows.append({"mechanism": "a learner", "fault": fault, "notices": notices})
    table = pd.DataFrame(rows)
    write_text(out, table.to_csv(index=False, float_format="%.4g", lineterminator="\n"))
    wrong = table[(table.notices == "") != (table.fault == "none")]
    say(table.to_markdown(index=False, floatfmt=".4g"))
    say(f"{len(table)} audits in {out}: {len(wrong)} wrong")
    return 1 if len(wrong) else 0


def _honest(eps: float) -> dict[str, Mechanism]:
    return {
        "rr": RandomizedResponse(eps),
        "rappor": Rappor(eps),
        "alibi": AdditiveLaplace(eps),
        "subset_selection": SubsetSelection(eps),
        "laplace": Laplace(eps),
        "clipped_laplace": ClippedLaplace(eps, clip=2.0),
        "rp_with_prior": RPWithPrior(eps),
        "exponential_cubes": ExponentialCubes(eps),
        "noisy_clusters": NoisyClusters(eps),
        "noisy_moments": NoisyMoments(eps),
        "labeldp_pro": LabelDPPro(eps, steps=10),
        "pate_fm": PateFM(eps),
        "cube_means": CubeMeans(eps),
        "clipped_cube_means": ClippedCubeMeans(eps, clip=2.0),
        "full_cube_means": FullCubeMeans(eps),
        "local_full": LocalFull(eps),
    }


def _row(name: str, fault: str, found: Audit) -> dict[str, object]:
    """Returns what each half says; bounds and p-values of the worst sampler."""
    bound = max(one.bound for one in found.sampled)
    fits = [one.fit.p_value for one in found.sampled if one.fit is not None]
    halves = {
        "formula": not found.formula_holds,
        "bound": bound > found.claimed,
        "fit": any(one.fit is not None and not one.fit.agrees for one in found.sampled),
    }
    return {
        "mechanism": name,
        "fault": fault,
        "claimed": found.claimed,
        "formula": found.exact,
        "eps from draws, at least": bound,
        "p of the fit": min(fits),
        "notices": " + ".join(half for half, says in halves.items() if says),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
