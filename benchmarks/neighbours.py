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
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.harness import Row, benchmark, integers
from labeldp_bench.cli.script import default_data_dir, integer
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


@benchmark(
    "neighbours",
    __doc__,
    points="100000,1000000",
    neighbours="10",
    data_dir=default_data_dir(),
)
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields a row for each number of points."""
    several = integers(options, "points", low=1000)
    k = integer("neighbours", options["neighbours"], low=1)
    images = ImageData("mnist", 10).draw(Path(options["data_dir"]), 0).train_features.squeeze()
    compiled = time.process_time()
    small = shifted(images, SMALL, torch.Generator().manual_seed(1))
    DescentSearch()(small, small, k + 1)  # pynndescent compiles itself on its first search
    compiled = time.process_time() - compiled
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
        yield {
            "points": count,
            "neighbours": k,
            "dimensions": COMPONENTS,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 1),
            "recall": round(float(hits.double().mean()) / k, 4),
            "exact_cpu_seconds_extrapolated": round(exact),
            "cpu_seconds_of_first_search": round(compiled, 1),
        }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
