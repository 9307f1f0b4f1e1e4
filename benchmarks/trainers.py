"""A cell trained by a run's own trainer and by a textbook loop, on the same released labels.

    python -m benchmarks.trainers [eps=1] [seed=0,1] [trainer.epochs=5] [model=cnn]
        [dataset=mnist] [device=cpu] [data_dir=FOLDER] [out=FOLDER]

The textbook loop is benchmarks/textbook.py: a DataLoader, one PIL image at a time,
eager, float32, cross entropy. It shares epochs, batch size, optimizer and labels with the cell, not
first weights, order and dropout; on a GPU its convolutions are in TF32, torch's default. So
mechanism=rr, and a recipe without augmentation, mixup and schedule. Writes
results/benchmarks/trainers_<device>.csv.
"""

import sys
import time
from pathlib import Path

import torch

from benchmarks.harness import BENCHMARKS, Row, report
from benchmarks.textbook import textbook_accuracy
from labeldp.losses import loss_named
from labeldp.supervision import Supervision, predict
from labeldp.support import seeding
from labeldp.support.progress import say
from labeldp.support.validate import InputError
from labeldp_bench.cli.script import (
    command,
    default_data_dir,
    output_folder,
    split_arguments,
)
from labeldp_bench.experiments.cell import Cell
from labeldp_bench.experiments.experiment import cells_of
from labeldp_bench.interfaces import Session
from labeldp_bench.learners import SingleStage
from labeldp_bench.models import NetworkModel
from labeldp_bench.runs.evaluate import accuracy_of, confusion_matrix
from labeldp_bench.support.device import resolve_device
from labeldp_bench.support.process import prepare_training

PLAIN: dict[str, object] = {"mixup": None, "schedule": None, "pixels": "standardised"}
PLAIN |= {"reshuffle": True, "views": 1, "selection": "last", "average": None}
RECIPE = {"mechanism": ["rr"], "dataset": ["mnist"]}
OWN = {"device": "auto", "out": str(BENCHMARKS)}


def compare(cell: Cell, data_dir: Path, device: torch.device) -> Row:
    """Returns one row of the table: test accuracies and seconds of both."""
    parts = cell.build()
    model, mechanism, learner = parts.model, parts.mechanism, parts.learner
    if not isinstance(model, NetworkModel):
        raise InputError("only networks are trained in epochs (use model=cnn)")
    trainer = model.trainer
    if cell.identity["mechanism"] != "rr" or learner != SingleStage("plain"):
        raise InputError(
            "a textbook loop takes released labels as they are, once (use mechanism=rr and its own "
            "learner)"
        )
    if parts.pretrain is not None:
        raise InputError("a textbook loop starts at random weights (use pretrain=none)")
    differs = [name for name in ("augment", "resolution") if getattr(trainer, name)]
    differs += [name for name, value in PLAIN.items() if getattr(trainer, name) != value]
    if differs:
        raise InputError(
            f"a textbook loop has another trainer.{differs[0]} (use trainer=vector_approximation)"
        )
    seed = seeding.derive(cell.seed, "trial", 0)  # of the cell's run, hence the same release
    bundle = parts.dataset.draw(data_dir, seed)
    store = bundle.store.open(mechanism.eps, seed, data=cell.data_name, again="timing")
    release = store.release(mechanism)
    session = Session(seed, device, say=say)
    started = time.perf_counter()
    classifier = model.fit(
        bundle.train_features, Supervision.of([release], loss_named("plain")), session
    )
    predicted = predict(classifier.scores(bundle.test_features), seed)
    between = time.perf_counter()
    torch.manual_seed(cell.seed)
    textbook = textbook_accuracy(
        model.network(num_classes=store.num_classes, image_shape=bundle.train_features.shape[1:]),
        (bundle.train_features, release.outputs),
        (bundle.test_features, bundle.test_labels),
        trainer.batch_size,
        trainer.epochs,
        trainer.optimizer,
        device,
    )
    ended = time.perf_counter()
    confusion = confusion_matrix(bundle.test_labels, predicted, store.num_classes)
    return {
        "dataset": bundle.name,
        "mechanism": cell.identity["mechanism"],
        "eps": mechanism.eps,
        "seed": cell.seed,
        "epochs": trainer.epochs,
        "precision": model.precision_on(device),
        "accuracy": round(accuracy_of(confusion), 4),
        "textbook_accuracy": round(textbook, 4),
        "seconds": round(between - started, 1),
        "textbook_seconds": round(ended - between, 1),
    }


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Trains, prints and writes; returns the exit status."""
    own, axes = split_arguments(arguments, OWN | {"data_dir": default_data_dir()})
    cells = cells_of([{}], RECIPE | axes)
    device, out = resolve_device(own["device"]), output_folder("out", own["out"])
    prepare_training()
    data_dir = Path(own["data_dir"]).expanduser()
    report("trainers", (compare(cell, data_dir, device) for cell in cells), out, device=device)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
