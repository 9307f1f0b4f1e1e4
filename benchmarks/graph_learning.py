"""Our Laplace and Poisson learning beside the package `graphlearning`, on one graph.

    python -m benchmarks.graph_learning [points=1500] [out=FOLDER]

Three overlapping groups in the plane, joined to their 10 nearest neighbours; labels by randomised
response. Poisson learning is the same method in both. Laplace learning is not: theirs holds the
released labels fixed, ours lets them move, as each is noise. The last row has three groups without
an edge between them, which theirs does not expect. Needs `pip install graphlearning` (1.7.5 was
measured). Prints a Markdown table and writes graph_learning_cpu.csv.
"""

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.table import BENCHMARKS, write_benchmark
from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse
from labeldp.store import StoredRelease
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import (
    command,
    integer,
    output_folder,
    print_head,
    print_row,
    read_arguments,
)
from labeldp_bench.interfaces import Session
from labeldp_bench.models import LaplaceLearning, PoissonLearning
from labeldp_bench.models.embeddings import joined_neighbours
from labeldp_bench.models.neighbours import NeighbourSearch

CENTRES = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
SETTINGS = ((8.0, 50, 1.0), (1.0, 10, 1.0), (1.0, 1, 1.0), (1.0, 1, 100.0))
"""(eps, one example in so many released a label, how far apart the groups are)."""
COLUMNS = (
    "method", "eps", "labels", "graph", "same class, %", "ours right, %", "theirs right, %",
    "ours, s", "theirs / ours",
)  # fmt: skip


def groups(count: int, apart: float) -> tuple[Tensor, Tensor]:
    """Returns points, float32 (count, 2), and their groups."""
    labels = torch.arange(count) % len(CENTRES)
    noise = torch.randn(count, 2, generator=torch.Generator().manual_seed(0))
    return 0.8 * noise + apart * CENTRES[labels], labels


def timed(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Returns the class of the largest value of each example, and seconds."""
    started = time.perf_counter()
    values = work()
    return values.argmax(1), time.perf_counter() - started


def measured(library: Any, count: int, eps: float, every: int, apart: float) -> list[list[object]]:
    """Returns a row for each method, as `COLUMNS`."""
    points, labels = groups(count, apart)
    graph = joined_neighbours(points, 10, NeighbourSearch()).astype(float)
    rows = torch.arange(0, count, every)
    mechanism = RandomizedResponse(eps)
    outputs = mechanism.release(labels[rows], 3, torch.Generator().manual_seed(1))
    supervision = Supervision.of(
        [StoredRelease(rows, outputs, mechanism, 3)], loss_named("unbiased")
    )
    session = Session(0, torch.device("cpu"))
    pairs = {
        "Poisson": (PoissonLearning(torch.nn.Linear), library.ssl.poisson),
        "Laplace": (LaplaceLearning(torch.nn.Linear), library.ssl.laplace),
    }
    found: list[list[object]] = []
    for name, (model, theirs) in pairs.items():
        own, seconds = timed(lambda m=model: m.fit(points, supervision, session).values.numpy())  # type: ignore[misc]
        other, their_seconds = timed(lambda f=theirs: f(graph).fit(rows.numpy(), outputs.numpy()))  # type: ignore[misc]
        right = [100 * float((each == labels.numpy()).mean()) for each in (own, other)]
        found.append([
            name, eps, len(rows), "in one piece" if apart == 1 else "in three",
            100 * float((own == other).mean()), *right, seconds, their_seconds / seconds,
        ])  # fmt: skip
    return found


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, {"points": "1500", "out": str(BENCHMARKS)})
    count = integer("points", own["points"], low=300)
    out = output_folder("out", own["out"])
    try:
        library = importlib.import_module("graphlearning")
    except ImportError:
        raise InputError("graphlearning is not installed (pip install graphlearning)") from None
    warnings.simplefilter("ignore", RuntimeWarning)  # theirs divides by zero where it has converged
    print_head(COLUMNS)
    rows = [row for setting in SETTINGS for row in measured(library, count, *setting)]
    for row in rows:
        print_row([f"{x:.3g}" if isinstance(x, float) else x for x in row])
    written = [{k: round(v, 3) if isinstance(v, float) else v for k, v in
                zip(COLUMNS, row, strict=True)} for row in rows]  # fmt: skip
    write_benchmark("graph_learning", written, torch.device("cpu"), out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
