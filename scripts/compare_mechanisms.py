"""Compares mechanisms and losses on fixed features: results/tables/comparison and its picture.

    python scripts/compare_mechanisms.py [seeds=4] [data_dir=FOLDER]

One linear model learns from each mechanism by each loss at eps=0.5, 1 and 2; held-out releases
choose its penalty, and test labels serve the score only. Photographs come as 30 numbers made from
whitened patches, beside four tables and the circle; at most 2,000 training rows each. A seed
takes about two minutes of one core; the tables need the extra `tables`.
"""

import itertools
import math
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import hydra
import pandas as pd
import torch
from torch import Tensor

from labeldp.linear import held_out_rows
from labeldp.losses import LOSSES
from labeldp.named_mechanisms import class_mechanism
from labeldp.store import StoredRelease
from labeldp.support import seeding
from labeldp.support.progress import progress_bar
from labeldp_bench.cli.script import command, default_data_dir, integer, read_arguments
from labeldp_bench.data.images import load_images
from labeldp_bench.data.tables import TableData, encoded
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models.convolutional import PatchNetwork
from labeldp_bench.models.encoders import Encoder
from labeldp_bench.models.penalised import fit_penalised, with_constant
from labeldp_bench.pretraining.patches import Patches
from papers.site.comparison import BUDGETS, losses_of, mechanisms_of, write_comparison
from papers.site.summaries import read_pages

IMAGES = ("mnist", "fashion_mnist", "cifar10")
TABLES = ("affairs", "marriage", "chile", "rand_health")
TRAINED, TESTED, FILTERS, COMPONENTS = 2_000, 2_000, 32, 30
PENALTIES = (0.03, 0.003)


class Data(NamedTuple):
    """Standardised columns and true labels, float32 (n, d) and int64 (n,), of both splits."""

    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    num_classes: int


def image_data(name: str, data_dir: Path) -> Data:
    """Returns photographs as principal components of their answers to random patches."""
    train, test = load_images(data_dir, name, 10)
    chosen = torch.randperm(len(train.labels), generator=seeding.generator(0, "data"))[:TRAINED]
    (images, labels), (tested, test_labels) = train.tensors(), test.tensors()
    images, labels = images[chosen], labels[chosen]
    cpu = torch.device("cpu")
    network = partial(PatchNetwork, filters=FILTERS, size=6, cells=2, threshold=0.25)
    weights = Patches(filters=FILTERS).train(network, images, data_dir, cpu)
    encoder, answers = Encoder.pretrained(network, weights.tensors, images, cpu)
    points = answers.double()
    axes = torch.linalg.eigh(points.T @ points).eigenvectors[:, -COMPONENTS:]
    test_points = encoder(tested[:TESTED]).double() @ axes
    return _standardised(points @ axes, labels, test_points, test_labels[:TESTED], 10)


def table_named(name: str) -> TableData:
    """Returns a data set of the benchmark that is a table."""
    config = compose_cell([f"dataset={name}", "mechanism=rr"]).config["dataset"]
    table: TableData = hydra.utils.instantiate(config)
    return table


def table_data(table: TableData, seed: int) -> Data:
    """Returns a table; a quarter of its rows are for the test."""
    rows = table.read(Path())
    order = torch.randperm(len(rows.labels), generator=seeding.generator(seed, "data")).numpy()
    test, train = order[: len(order) // 4], order[len(order) // 4 :][:TRAINED]
    points, test_points = map(torch.from_numpy, encoded(rows.columns, train, test))
    labels = torch.from_numpy(rows.labels)
    return _standardised(points, labels[train], test_points, labels[test], rows.num_classes)


def circle_data(seed: int) -> Data:
    """Returns ten normal clouds on a circle, as far apart as dataset.sigma=2/K has them."""
    generator = seeding.generator(seed, "data")
    labels = torch.randint(10, (TRAINED + TESTED,), generator=generator)
    angles = labels * (2 * math.pi / 10)
    noise = 0.2 * torch.randn(len(labels), 2, generator=generator)
    points = torch.stack([angles.cos(), angles.sin()], 1) + noise
    return _standardised(points[:TRAINED], labels[:TRAINED], points[TRAINED:], labels[TRAINED:], 10)


def _standardised(
    points: Tensor, labels: Tensor, test_points: Tensor, test_labels: Tensor, num_classes: int
) -> Data:
    mean, spread = points.mean(0), points.std(0, correction=0)
    scale = torch.where(spread > 0, 1 / spread, 0.0)
    inputs, tested = ((part - mean) * scale for part in (points, test_points))
    return Data(inputs.float(), labels, tested.float(), test_labels, num_classes)


def accuracy(data: Data, mechanism: str, loss: str, eps: float, seed: int) -> float:
    """Returns the test accuracy of the linear model that learned from one release."""
    released_by = class_mechanism(mechanism, eps, {})
    draws = seeding.generator(seed, "noise")
    outputs = released_by.release(data.labels, data.num_classes, draws)
    rows = torch.arange(len(data.labels))
    release = StoredRelease(rows, outputs, released_by, data.num_classes)
    targets = LOSSES[loss].targets(release)
    splits = [held_out_rows(len(rows), 0.2, seed)]
    problem = with_constant(data.inputs), targets, LOSSES[loss], data.num_classes
    weights, _ = fit_penalised(*problem, PENALTIES, splits)
    guesses = (with_constant(data.test_inputs) @ weights).argmax(1)
    return float((guesses == data.test_labels).double().mean())


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Prints where the table is."""
    own = read_arguments(arguments, {"seeds": "4", "data_dir": default_data_dir()})
    seeds = integer("seeds", own["seeds"], low=1)
    photographs = {name: image_data(name, Path(own["data_dir"])) for name in IMAGES}
    tables = {name: table_named(name) for name in TABLES}
    runs = []
    for seed in progress_bar(range(seeds), seeds, "seeds"):
        drawn = photographs | {name: table_data(table, seed) for name, table in tables.items()}
        drawn["circle"] = circle_data(seed)
        for (name, data), eps in itertools.product(drawn.items(), BUDGETS):
            for mechanism in mechanisms_of(data.num_classes):
                for loss in losses_of(mechanism):
                    cell = {"dataset": name, "mechanism": mechanism, "loss": loss, "eps": eps}
                    score = accuracy(data, mechanism, loss, eps, seed)
                    runs.append(cell | {"seed": seed, "accuracy": score})
    path = write_comparison(pd.DataFrame(runs))
    read_pages()["comparison"].write({})
    print(f"{len(runs)} runs; wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
