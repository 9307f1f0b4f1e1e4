"""Regret of rules that choose a penalty from releases, against the best one by test accuracy.

    python -m benchmarks.penalties [seeds=3] [dataset=cifar10,mnist,fashion_mnist]
        [eps=0.1,0.2,0.5,1,2] [components=64] [iterations=10] [out=FOLDER] [data_dir=FOLDER]

A linear classifier learns from 50,000 releases of subset selection by the marginal likelihood: on a
public encoder of CIFAR-10, on 256 random patches of the others. Regret is the test accuracy, in
percentage points, that a rule loses on the best of all powers and penalties. The first four rules
choose a penalty without powers (`model.powers` of the probe), the last one both.
Writes penalty_regret.csv.
"""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from benchmarks.harness import BENCHMARKS, CPU
from labeldp.losses import LOSSES
from labeldp.mechanisms import SubsetSelection
from labeldp.store import StoredRelease
from labeldp.support import seeding
from labeldp_bench.cli.script import (
    command,
    default_data_dir,
    finite_eps,
    integer,
    output_folder,
    read_arguments,
    some,
)
from labeldp_bench.data.images import load_images
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models import Probe
from labeldp_bench.models.encoders import Encoder
from labeldp_bench.models.linear_heads import leading_directions, scale_of
from labeldp_bench.models.penalised import log_evidence, minima, variances_of, with_constant

LIMIT, FOLDS, CLASSES = 50_000, 5, 10
POWERS = (0, 0.5, 1)
PENALTIES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
FEATURES = {"cifar10": ["pretrain=imagenet", "encoder=lite0"]}
PATCHES = ["pretrain=patches", "pretrain.filters=256"]
LOSS = LOSSES["marginal"]
BEST = "best by test accuracy"


class Data(NamedTuple):
    """Features with a constant, (n, d + 1), and true labels of training and test images."""

    inputs: Tensor
    labels: Tensor
    tested: Tensor
    test_labels: Tensor


def load(name: str, data_dir: Path, components: int) -> Data:
    """Returns the leading directions of a data set's features."""
    train, test = load_images(data_dir, name, CLASSES)
    (images, labels), (test_images, test_labels) = train.tensors(), test.tensors()
    chosen = [f"dataset={name}", "mechanism=subset_selection", "model=probe"]
    parts = compose_cell([*chosen, *FEATURES.get(name, PATCHES)]).build()
    recipe, model = parts.pretrain, parts.model
    assert recipe is not None and isinstance(model, Probe)
    network = recipe.network(model.network, data_dir)
    weights = recipe.train(network, images, data_dir, CPU)
    encoder, encoded = Encoder.pretrained(network, weights.tensors, images, CPU)
    encoded, directions = leading_directions(encoded, components)
    tested = encoder(test_images) @ directions
    kept = encoded[:LIMIT], labels[:LIMIT]
    return Data(with_constant(kept[0]), kept[1], with_constant(tested), test_labels)


def compared(data: Data, eps: float, seed: int, iterations: int) -> dict[str, tuple[float, float]]:
    """Returns the penalty of each rule, and the test accuracy that it leads to."""
    mechanism, rows = SubsetSelection(eps), torch.arange(len(data.labels))
    outputs = mechanism.release(data.labels, CLASSES, seeding.generator(seed, "noise"))
    targets = LOSS.targets(StoredRelease(rows, outputs, mechanism, CLASSES))
    order = torch.randperm(len(rows), generator=seeding.generator(seed, "train", "held_out"))

    def path(kept: Tensor) -> list[Tensor]:
        problem = data.inputs[kept], targets[kept], LOSS, CLASSES
        return list(minima(*problem, PENALTIES, iterations))

    losses = []
    for out in order.chunk(FOLDS):
        fitted = path(rows[~torch.isin(rows, out)])
        own = [LOSS(data.inputs[out] @ weights, targets[out]) for weights in fitted]
        losses.append(torch.stack(own).double())
    folds = torch.cat(losses, 1)
    beyond = folds - folds[folds.mean(1).argmin()]
    within = beyond.mean(1) <= beyond.std(1) / len(rows) ** 0.5
    tried = pd.DataFrame(list(fits(data, targets, iterations)))
    alike = tried[tried.power == 0].reset_index()
    choices = {
        BEST: tried.loc[tried.accuracy.idxmax()],
        "one held-out fifth": alike.loc[int(losses[0].mean(1).argmin())],
        "five folds": alike.loc[int(folds.mean(1).argmin())],
        "five folds, largest within one standard error": alike.loc[int(within.double().argmax())],
        "evidence": alike.loc[alike.evidence.idxmax()],
        "evidence, powers": tried.loc[tried[tried.power > 0].evidence.idxmax()],
    }
    return {rule: (fit.penalty, fit.accuracy) for rule, fit in choices.items()}


def fits(data: Data, targets: Tensor, iterations: int) -> Iterator[dict[str, float]]:
    """Yields power, penalty, evidence and test accuracy in percent of fits to all releases."""
    for power in POWERS:
        scale = scale_of(data.inputs, power)
        inputs, tested = data.inputs * scale, data.tested * scale
        variances, problem = variances_of(inputs), (inputs, targets, LOSS)
        path = minima(*problem, CLASSES, PENALTIES, iterations)
        for penalty, weights in zip(PENALTIES, path, strict=True):
            right = (tested @ weights).argmax(1) == data.test_labels
            yield {
                "power": power,
                "penalty": penalty,
                "evidence": log_evidence(*problem, weights, penalty, variances),
                "accuracy": 100 * float(right.double().mean()),
            }


def table_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Returns mean and worst regret of each rule, data set and eps, and of each rule over all."""
    everywhere = runs.assign(dataset="all", eps="all")
    cells = pd.concat([runs, everywhere]).groupby(["dataset", "eps", "rule"], sort=False)
    table = cells.agg(
        seeds=("seed", "nunique"),
        best_accuracy=("best", "mean"),
        mean_regret=("regret", "mean"),
        worst_regret=("regret", "max"),
        least_penalty=("penalty", "min"),
        largest_penalty=("penalty", "max"),
    )
    return table.reset_index()


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Compares the rules and writes the table."""
    defaults = {
        "seeds": "3", "dataset": "cifar10,mnist,fashion_mnist", "eps": "0.1,0.2,0.5,1,2",
        "components": "64", "iterations": "10", "out": str(BENCHMARKS),
        "data_dir": default_data_dir(),
    }  # fmt: skip
    own = read_arguments(arguments, defaults)
    out, data_dir = output_folder("out", own["out"]), Path(own["data_dir"])
    seeds, components, iterations = (
        integer(key, own[key], low=1) for key in ("seeds", "components", "iterations")
    )
    budgets = [finite_eps("eps", text) for text in some("eps", own["eps"])]
    runs = []
    for name in some("dataset", own["dataset"]):
        data = load(name, data_dir, components)
        for eps, seed in itertools.product(budgets, range(seeds)):
            choices = compared(data, eps, seed, iterations)
            _, best = choices.pop(BEST)
            for rule, (penalty, hits) in choices.items():
                cell = {"dataset": name, "eps": eps, "seed": seed, "rule": rule, "best": best}
                runs.append(cell | {"penalty": penalty, "regret": best - hits})
            print(pd.DataFrame(runs[-len(choices) :]).to_string(index=False), flush=True)
        path = out / "penalty_regret.csv"
        table_of(pd.DataFrame(runs)).to_csv(path, index=False, float_format="%.3f")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
