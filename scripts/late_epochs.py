"""Writes results/late_epochs.csv: test accuracy of each scored epoch of mechanisms/late_epochs.

    python scripts/late_epochs.py [out_dir=results/runs]

A row is an epoch of a run; one at a constant rate is also a training of fewer epochs.
"""

import json
import sys
from pathlib import Path

import pandas as pd

from labeldp_bench.cli.script import command, read_arguments
from labeldp_bench.support.checkout import CHECKOUT


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints last and best epoch of each training."""
    out_dir = Path(read_arguments(arguments, {"out_dir": "results/runs"})["out_dir"])
    tables = []
    for path in sorted(out_dir.glob("cifar10_16/*/resnet18_w16/eps=2/*/record.json")):
        record = json.loads(path.read_text())
        trainer = record["config"]["model"]["trainer"]
        scored = pd.read_csv(path.parent / "history.csv").dropna(subset="test_accuracy")
        values = {
            "mechanism": record["mechanism"],
            "rate": "constant" if trainer["schedule"] is None else "decaying",
            "shifted": bool(trainer["augment"]),
            "weight_decay": trainer["optimizer"].get("weight_decay", 0),
            "epochs": record["epochs"],
            "seed": record["seed"],
        }
        tables.append(scored.assign(**values)[[*values, "epoch", "test_accuracy"]])
    runs = pd.concat(tables).sort_values([*values, "epoch"])
    runs.to_csv(CHECKOUT / "results" / "late_epochs.csv", index=False, lineterminator="\n")
    short = [
        whole[whole.epoch <= length].assign(epochs=length)
        for (rate, most), whole in runs.groupby(["rate", "epochs"])
        for length in ((4, 8, 16, most) if rate == "constant" else (most,))
    ]
    groups = pd.concat(short).groupby(list(values)).test_accuracy
    print((100 * groups.agg(["last", "max"])).round(1).unstack("mechanism").to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
