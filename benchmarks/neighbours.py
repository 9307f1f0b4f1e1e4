"""Time and recall of approximate neighbour graphs (`model.search=descent`) on many images.

    python -m benchmarks.neighbours [points=100000,1000000] [neighbours=10] [data_dir=...] [out=...]

Points are MNIST's training images, shifted at random by up to two pixels until there are enough, on
their 50 principal components, of length 1. Recall is the share of the true nearest neighbours that
the graph has, over 500 points that are compared with all others. CPU seconds tell the work where
the machine is busy. The first search of a process compiles, and is told apart. Needs `pynndescent`,
and mnist.npz in the folder of the data. Writes neighbours_cpu.csv.
"""

import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp_bench.cli.script import (
    command,
    default_data_dir,
    integer,
    output_folder,
    print_head,
    print_row,
    read_arguments,
    some,
)
from labeldp_bench.data.images import ImageData
from labeldp_bench.models.embeddings import DescentSearch
from labeldp_bench.models.neighbours import NeighbourSearch

COMPONENTS, SHIFT, SAMPLE = 50, 2, 500
SMALL = 5000
"""Points of a first search, which is told apart: most of it is compilation."""


def shifted(images: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Returns `count` points, float32 (count, 50), each an image moved at random."""
    flat = images.float().flatten(1)
    mean = flat.mean(0)
    _, _, directions = torch.svd_lowrank(flat[:10_000] - mean, COMPONENTS, niter=4)
    parts = []
    for start in range(0, count, 10_000):
        size = min(10_000, count - start)
        chosen = images[torch.randint(len(images), (size,), generator=generator)]
        moves = torch.randint(-SHIFT, SHIFT + 1, (2,), generator=generator).tolist()
        moved = torch.roll(chosen, moves, (1, 2)).float().flatten(1) - mean
        parts.append(torch.nn.functional.normalize(moved @ directions))
    return torch.cat(parts)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, {
        "points": "100000,1000000", "neighbours": "10",
        "data_dir": default_data_dir(), "out": str(BENCHMARKS),
    })  # fmt: skip
    several = [integer("points", text, low=1000) for text in some("points", own["points"])]
    k = integer("neighbours", own["neighbours"], low=1)
    out = output_folder("out", own["out"])
    images = ImageData("mnist", 10).draw(Path(own["data_dir"]), 0).train_features.squeeze()
    rows = []
    compiled = time.process_time()
    small = shifted(images, SMALL, torch.Generator().manual_seed(1))
    DescentSearch()(small, small, k + 1)  # pynndescent compiles itself on its first search
    compiled = time.process_time() - compiled
    print_head(("points", "k", "s", "CPU s", "recall", "exact, CPU s (extrapolated)"))
    for count in several:
        generator = torch.Generator().manual_seed(0)
        points = shifted(images, count, generator)
        started, cpu = time.perf_counter(), time.process_time()
        found = DescentSearch()(points, points, k + 1)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        sample = torch.randperm(count, generator=generator)[:SAMPLE]
        exact = time.process_time()
        true = NeighbourSearch()(points, points[sample], k + 1)
        exact = (time.process_time() - exact) * count / SAMPLE
        hits = (found[sample][:, :, None] == true[:, None, :]).any(1).sum(1) - 1  # itself
        row = {
            "points": count, "neighbours": k, "dimensions": COMPONENTS,
            "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1),
            "recall": round(float(hits.double().mean()) / k, 4),
            "exact_cpu_seconds_extrapolated": round(exact),
            "cpu_seconds_of_first_search": round(compiled, 1),
        }  # fmt: skip
        rows.append(row)
        print_row([count, k, row["seconds"], row["cpu_seconds"], row["recall"], round(exact)])
    print(f"\nthe first search of a process, {SMALL} points: {compiled:.0f} CPU s, to compile")
    write_benchmark("neighbours", rows, torch.device("cpu"), out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
