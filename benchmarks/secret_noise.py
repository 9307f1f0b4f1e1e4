"""Labels per second of releases with secret noise, beside the same releases from a seed.

    python -m benchmarks.secret_noise [labels=60000] [out=FOLDER]

One thread, the best of fifteen for each, turn by turn. Prints a Markdown table and writes
results/benchmarks/secret_noise_cpu.csv.
"""

import sys
from functools import partial

import torch

from benchmarks.mechanisms import EPS, rate
from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp import mechanisms
from labeldp.mechanisms.noise import Noise, SecretGenerator
from labeldp_bench.cli.script import (
    command,
    integer,
    output_folder,
    print_head,
    print_row,
    read_arguments,
)

CLASSES = (10, 100)
MECHANISMS: tuple[mechanisms.ClassMechanism, ...] = (
    mechanisms.RandomizedResponse(eps=EPS),
    mechanisms.Rappor(eps=EPS),
    mechanisms.SubsetSelection(eps=EPS),
    mechanisms.AdditiveLaplace(eps=EPS),
)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, {"labels": "60000", "out": str(BENCHMARKS)})
    size = integer("labels", own["labels"], low=1)
    out = output_folder("out", own["out"])
    torch.set_num_threads(1)
    print_head(("mechanism", "K", "seeded, labels/s", "secret, labels/s", "secret / seeded"))
    noises: tuple[Noise, ...] = torch.Generator().manual_seed(0), SecretGenerator()
    rows = []
    for mechanism in MECHANISMS:
        for num_classes in CLASSES:
            labels = torch.arange(size) % num_classes
            rates = [0.0, 0.0]
            for _ in range(5):  # in turns, as other work may slow the machine down for a while
                for place, noise in enumerate(noises):
                    release = partial(mechanism.release, labels, num_classes, noise)
                    rates[place] = max(rates[place], rate(release, size))
            name = type(mechanism).__name__
            rows.append(
                {
                    "mechanism": name,
                    "num_classes": num_classes,
                    "eps": EPS,
                    "labels": size,
                    "seeded_labels_per_second": round(rates[0]),
                    "secret_labels_per_second": round(rates[1]),
                }
            )
            shown = (f"{each:,.0f}" for each in rates)
            print_row((name, num_classes, *shown, f"{rates[1] / rates[0]:.2f}x"))
    write_benchmark("secret_noise", rows, torch.device("cpu"), out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
