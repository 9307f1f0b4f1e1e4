"""Our Laplace and Poisson learning beside the package `graphlearning`, on one graph.

    python -m benchmarks.graph_learning [points=1500] [out=FOLDER]

Three overlapping groups in the plane, joined to their 10 nearest neighbours; labels by randomised
response. Poisson learning is the same method in both. Laplace learning is not: theirs holds the
released labels fixed, ours lets them move, as each is noise. The last row has three groups without
an edge between them, which theirs does not expect. Needs `pip install graphlearning` (1.7.5 was
measured). Writes graph_learning_cpu.csv.
"""

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import CPU, Row, benchmark
from labeldp.losses import loss_named
from labeldp.mechanisms import RandomizedResponse
from labeldp.store import StoredRelease
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import integer
from labeldp_bench.interfaces import Session
from labeldp_bench.models import LaplaceLearning, PoissonLearning
from labeldp_bench.models.embeddings import joined_neighbours
from labeldp_bench.models.neighbours import NeighbourSearch

CENTRES = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
SETTINGS = ((8.0, 50, 1.0), (1.0, 10, 1.0), (1.0, 1, 1.0), (1.0, 1, 100.0))
"""(eps, one example in so many released a label, how far apart the groups are)."""


def groups(count: int, apart: float) -> tuple[Tensor, Tensor]:
    """Returns points, float32 (count, 2), and their groups."""
    labels = torch.arange(count) % len(CENTRES)
    noise = torch.randn(count, 2, generator=torch.Generator().manual_seed(0))
    return 0.8 * noise + apart * CENTRES[labels], labels


def classes_of(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """Returns the class of the largest value of each example, and seconds."""
    started = time.perf_counter()
    values = work()
    return values.argmax(1), time.perf_counter() - started


def measured(library: Any, count: int, eps: float, every: int, apart: float) -> Iterator[Row]:
    """Yields a row for each method."""
    points, labels = groups(count, apart)
    graph = joined_neighbours(points, 10, NeighbourSearch()).astype(float)
    rows = torch.arange(0, count, every)
    mechanism = RandomizedResponse(eps)
    outputs = mechanism.release(labels[rows], 3, torch.Generator().manual_seed(1))
    release = StoredRelease(rows, outputs, mechanism, 3)
    supervision = Supervision.of([release], loss_named("unbiased"))
    pairs = {
        "Poisson": (PoissonLearning(torch.nn.Linear), library.ssl.poisson),
        "Laplace": (LaplaceLearning(torch.nn.Linear), library.ssl.laplace),
    }

    def fit_ours(model: Any) -> np.ndarray:
        return model.fit(points, supervision, Session(0, CPU)).values.numpy()

    def fit_theirs(method: Any) -> np.ndarray:
        return method(graph).fit(rows.numpy(), outputs.numpy())

    for name, (model, method) in pairs.items():
        own, seconds = classes_of(partial(fit_ours, model))
        other, their_seconds = classes_of(partial(fit_theirs, method))
        row = {
            "method": name,
            "eps": eps,
            "labels": len(rows),
            "graph": "in one piece" if apart == 1 else "in three",
            "same class, %": 100 * float((own == other).mean()),
            "ours right, %": 100 * float((own == labels.numpy()).mean()),
            "theirs right, %": 100 * float((other == labels.numpy()).mean()),
            "ours, s": seconds,
            "theirs / ours": their_seconds / seconds,
        }
        yield {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}


@benchmark("graph_learning", __doc__, points="1500")
def main(options: dict[str, str]) -> Iterator[Row]:
    """Yields a row for each setting and method."""
    count = integer("points", options["points"], low=300)
    try:
        library = importlib.import_module("graphlearning")
    except ImportError:
        raise InputError("graphlearning is not installed (pip install graphlearning)") from None
    warnings.simplefilter("ignore", RuntimeWarning)  # theirs divides by zero where it has converged
    for setting in SETTINGS:
        yield from measured(library, count, *setting)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
