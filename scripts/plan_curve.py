"""How accuracy grows with effective labels, from the committed records: what `plan` rests on.

    python scripts/plan_curve.py

Reads results/records.csv, writes labeldp_bench/own_labels/plan_curve.csv. Runs that count: local
mechanisms without a prior, one stage, marginal likelihood. An effective label is a release times
its worth in true labels (labeldp_bench/own_labels/strength.py).
"""

import json
import math
import sys

import numpy as np
import pandas as pd

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.own_labels.strength import strengths
from labeldp_bench.support.checkout import CHECKOUT
from labeldp_bench.support.files import write_text

OUT = CHECKOUT / "labeldp_bench" / "own_labels" / "plan_curve.csv"
NUM_CLASSES = {"mnist": 10, "fashion_mnist": 10, "kmnist": 10, "cifar10": 10, "cifar100": 100}
FEWEST = 10
"""Runs of a bin; others are left out."""


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Writes the curve."""
    read_arguments(arguments, {})
    records = pd.read_csv(CHECKOUT / "results" / "records.csv", low_memory=False)
    chosen = records[
        (records.task == "classification") & (records.trust == "local")
        & (records.loss == "marginal") & (records.learner == "single_stage") & records.eps.notna()
    ]  # fmt: skip
    rows = []
    for record in chosen.itertuples():
        identity = json.loads(record.identity)
        count = identity.get("dataset.num_classes") or NUM_CLASSES[record.dataset]
        name = "rr" if record.mechanism == "lp_1st" else record.mechanism
        eps = float(record.eps)
        if math.isinf(eps) or name not in strengths(count, eps):
            continue
        labels = record.n_train * strengths(count, eps)[name][1] / count
        gain = (record.accuracy - 1 / count) / (1 - 1 / count)
        rows.append([round(2 * math.log10(labels)) / 2, gain])
    found = pd.DataFrame(rows, columns=["log10_labels", "gain"]).groupby("log10_labels").gain
    curve = pd.DataFrame(
        {name: found.quantile(part) for name, part in
         (("low", 0.1), ("middle", 0.5), ("high", 0.9))} | {"runs": found.size()}
    )  # fmt: skip
    curve = curve[curve.runs >= FEWEST]
    # More labels cannot tell less; bins hold different tasks.
    for name in ("low", "middle", "high"):
        curve[name] = np.maximum.accumulate(curve[name].clip(0, 1))
    write_text(OUT, curve.reset_index().to_csv(index=False, float_format="%.4f"))
    print(curve.to_string())
    print(f"wrote {OUT} from {len(rows)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
