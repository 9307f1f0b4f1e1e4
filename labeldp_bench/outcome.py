"""One cell while it runs: what its trials gave, the record of that, or why there is none."""

import math
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from labeldp_bench.cell import Cell
from labeldp_bench.checkpoint import Checkpoint
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.evaluate import per_class_accuracy
from labeldp_bench.files import write_text
from labeldp_bench.fit import out_of_memory
from labeldp_bench.place import describe_device
from labeldp_bench.progress import say
from labeldp_bench.records import new_record
from labeldp_bench.risk import Tally
from labeldp_bench.validate import Diverged, InputError

Fail = Callable[[Cell, Path, Exception], Path]
"""What becomes of a cell that failed; returns its folder."""


@dataclass(eq=False)
class Run:
    """One cell while it runs: its objects and what its trials gave."""

    cell: Cell
    folder: Path
    parts: dict[str, Any]
    accuracies: list[float] = field(default_factory=list)
    confusion: Any = 0  # float64 (K, K), the sum: a thousand of them would fill the memory
    tally: Tally | None = None
    agreements: list[float] = field(default_factory=list)
    best_epoch_accuracy: float | None = None
    epochs_averaged: int | None = None
    extra_tests: dict[str, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    ledger: list[dict[str, Any]] = field(default_factory=list)
    trust: str = "local"
    eps_spent: float = 0.0
    train_seconds: float = 0.0
    trained_examples: int = 0
    checkpoint: Checkpoint | None = None
    share: float = 1.0  # of the time that its job takes
    packed: int = 1  # how many networks trained at once

    def add(self, later: "Run") -> None:
        """Takes in what the next trials of the same cell gave."""
        self.accuracies += later.accuracies
        self.confusion = self.confusion + later.confusion
        if later.tally is not None:
            self.tally = later.tally if self.tally is None else self.tally.merged(later.tally)
        self.agreements += later.agreements
        self.best_epoch_accuracy = later.best_epoch_accuracy
        self.epochs_averaged = later.epochs_averaged
        self.extra_tests = later.extra_tests
        self.notes |= later.notes
        self.ledger, self.trust = later.ledger, later.trust
        self.eps_spent = max(self.eps_spent, later.eps_spent)
        self.train_seconds += later.train_seconds
        self.trained_examples += later.trained_examples


def record_of(
    run: Run, bundle: DataBundle, model: Any, seconds: float, device: torch.device
) -> dict[str, Any]:
    """Returns the record of a run whose trials are all done.

    Args:
        run: the cell and what its trials gave.
        bundle: the data of the last trial.
        model: what was fitted.
        seconds: its share of the job's wall time.
        device: where it ran.
    """
    mechanism = run.parts["mechanism"]
    trainer = getattr(model, "trainer", None)
    rate = run.trained_examples / run.train_seconds if run.train_seconds else None
    return new_record(
        run.cell,
        dataset=bundle.name,
        eps=mechanism.eps,
        task=bundle.task,
        **_scores(run),
        eps_spent=run.eps_spent,
        delta=mechanism.delta,
        trust=run.trust,
        private=mechanism.private and math.isfinite(mechanism.eps),
        released_agreement=_mean(run.agreements),
        selection=trainer.selection if trainer else "last",
        precision=model.resolved_precision(device),
        epochs=trainer.epochs if trainer else None,
        epochs_averaged=run.epochs_averaged,
        n_train=len(bundle.train_features),
        n_test=len(bundle.test_labels),
        data_sha256=bundle.sha256,
        selection_sha256=bundle.selection_sha256,
        extra_accuracy=run.extra_tests,
        best_epoch_accuracy=run.best_epoch_accuracy,
        mechanism_summary=mechanism.summary(),
        ledger=run.ledger,
        notes=run.notes,
        wall_seconds=round(seconds, 3),
        images_per_second=round(rate, 1) if rate else None,
        device=describe_device(device),
        **({"packed": run.packed} if run.packed > 1 else {}),
    )


def _scores(run: Run) -> dict[str, Any]:
    """Returns accuracies over test labels; the excess risk or the squared error of a tally."""
    dataset = run.parts["dataset"]
    if run.tally is not None:
        none = {"accuracy": None, "per_class_accuracy": None, "per_class_mean": None}
        return none | run.tally.summary()
    trials = torch.tensor(run.accuracies, dtype=torch.float64)
    classes = per_class_accuracy(run.confusion)
    scores = {
        "accuracy": float(trials.mean()),
        "per_class_accuracy": classes,
        "per_class_mean": _mean([accuracy for accuracy in classes if accuracy is not None]),
    }
    if hasattr(dataset, "bayes_accuracy"):
        many = len(trials) > 1
        scores["accuracy_sem"] = float(trials.std() / math.sqrt(len(trials))) if many else None
        scores |= {"bayes_accuracy": dataset.bayes_accuracy(), "trials": len(trials)}
    return scores


def _mean(numbers: list[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def note(cell: Cell, folder: Path, error: Exception) -> Path:
    """Says in `error.txt` and in one line on stderr that a cell failed; returns its folder."""
    path = folder / "error.txt"
    write_text(path, "".join(traceback.format_exception(error)))
    text = " ".join(str(error).split())
    if out_of_memory(error):
        text = (
            "out of memory (free the device of other work, take a smaller model, or device=cpu; "
            "the batch size is part of the recipe)"
        )
    elif not isinstance(error, InputError):
        text = f"{type(error).__name__}: {text} (see {path})"
    say(f"error: {cell.title}: {text}", sys.stderr)
    return folder


def note_or_refuse(cell: Cell, folder: Path, error: Exception) -> Path:
    """Raises what is wrong with the input, for a command of one run; else as `note`."""
    if isinstance(error, InputError) and not isinstance(error, Diverged):
        raise error
    return note(cell, folder, error)
