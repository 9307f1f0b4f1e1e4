"""Scores against true test labels: counts only, and nothing flows back to a learner."""

import csv
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labeldp.supervision import predict
from labeldp.support.files import writing
from labeldp_bench.interfaces import Classifier, Epoch
from labeldp_bench.runs.probability_scores import probability_scores
from labeldp_bench.training.trainer import SELECTIONS

HISTORY_COLUMNS = ("epoch", "loss", "released_hits", "test_accuracy", "lr", "seconds")


def confusion_matrix(true_labels: Tensor, predicted: Tensor, num_classes: int) -> Tensor:
    """Returns counts, int64 (K, K), row = true class, column = predicted class.

    >>> confusion_matrix(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), 2).tolist()
    [[1, 0], [1, 1]]
    """
    pairs = true_labels * num_classes + predicted
    return torch.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


def accuracy_of(confusion: Tensor) -> float:
    """Returns the share of counts on the diagonal."""
    return float(confusion.diagonal().sum()) / float(confusion.sum())


def per_class_accuracy(confusion: Tensor) -> list[float | None]:
    """Returns the accuracy of each true class; None where no test example has it."""
    hits, totals = confusion.diagonal().tolist(), confusion.sum(1).tolist()
    return [hit / total if total else None for hit, total in zip(hits, totals, strict=True)]


@dataclass
class Evaluator:
    """Scores a classifier on the test set, after every epoch and at the end.

    Args:
        features: of the test set, (M, ...).
        labels: true, int64 (M,); real labels, float64 (M,), have a tally instead (risk.py).
        num_classes: K.
        extra_tests: further test sets, name -> (features, labels).
        selection: `last` or `mean_last_10`: which epochs' counts are averaged. `best_validation`:
            the counts of the classifier as the trainer leaves it.
        seed: the run's seed, for ties.
        history: where each epoch adds a row; None writes nothing.
        say: prints one line for the user.
        probabilities: whether predicted probabilities are scored too.
    """

    features: Tensor
    labels: Tensor
    num_classes: int
    extra_tests: Mapping[str, tuple[Tensor, Tensor]]
    selection: str
    seed: int
    history: Path | None
    say: Callable[[str], None]
    probabilities: bool = False
    train_seconds: float = 0.0
    trained_examples: int = 0
    best_epoch_accuracy: float | None = None
    _kept: deque[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self._kept = deque(maxlen=SELECTIONS[self.selection])
        if self.history is not None:
            self.history.unlink(missing_ok=True)  # an earlier try's

    def on_epoch(self, epoch: Epoch, classifier: Classifier) -> None:
        """Scores the classifier so far and writes one row of the history."""
        if epoch.number == 1:  # a new fit, such as the next stage, starts afresh
            self._kept.clear()
        self.train_seconds += epoch.seconds
        self.trained_examples += epoch.num_examples
        test_accuracy = None
        if epoch.is_scored:
            self._kept.append(self._confusion(classifier))
            test_accuracy = accuracy_of(self._kept[-1])
            # Recorded to show how much choosing by it would flatter; nothing is chosen by it.
            self.best_epoch_accuracy = max(self.best_epoch_accuracy or 0.0, test_accuracy)
        if self.history is not None:
            row = (epoch.number, epoch.loss, epoch.released_hits, test_accuracy, epoch.lr)
            fresh = not self.history.exists()
            with writing(self.history), self.history.open("a", newline="") as file:
                csv.writer(file).writerows([HISTORY_COLUMNS] if fresh else [])
                csv.writer(file).writerow([*row, round(epoch.seconds, 3)])
        scored = "" if test_accuracy is None else f"test {100 * test_accuracy:.2f} %  "
        self.say(
            f"  epoch {epoch.number:>3}/{epoch.total}  loss {epoch.loss:.4f}  {scored}"
            f"{epoch.seconds:.1f} s"
        )

    def finish(self, classifier: Classifier) -> Tensor:
        """Returns the counts that are reported, float64 (K, K): the mean over selected epochs."""
        if self.selection == "best_validation":
            self._kept.clear()  # the last epoch need not be the one that was chosen
        if not self._kept:  # a model without epochs
            self._kept.append(self._confusion(classifier))
        return torch.stack(list(self._kept)).to(torch.float64).mean(0)

    @property
    def epochs_averaged(self) -> int | None:
        """How many epochs the reported counts average; None for a model without epochs."""
        return len(self._kept) if self.trained_examples else None

    def state_dict(self) -> dict[str, Any]:
        """Returns what the epochs so far gave, the text of the history with it."""
        rows = self.history.read_bytes() if self.history and self.history.exists() else b""
        return {
            "kept": list(self._kept),
            "best_epoch_accuracy": self.best_epoch_accuracy,
            "train_seconds": self.train_seconds,
            "trained_examples": self.trained_examples,
            "history": rows.decode(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave; rows of later epochs leave the history."""
        self._kept.extend(state["kept"])
        self.best_epoch_accuracy = state["best_epoch_accuracy"]
        self.train_seconds = state["train_seconds"]
        self.trained_examples = state["trained_examples"]
        if self.history is not None and state["history"]:  # an empty file would get no header
            self.history.write_bytes(state["history"].encode())

    def extra_accuracies(self, classifier: Classifier) -> dict[str, float]:
        """Returns the final classifier's accuracy on each further test set."""
        return {
            name: float((predict(classifier.scores(images), self.seed) == labels).double().mean())
            for name, (images, labels) in self.extra_tests.items()
        }

    def probability_scores(self, classifier: Classifier) -> dict[str, float | None]:
        """Returns scores of the final classifier's probabilities; empty where nobody asks."""
        if not self.probabilities:
            return {}
        return probability_scores(classifier.probabilities(self.features), self.labels)

    def _confusion(self, classifier: Classifier) -> Tensor:
        predicted = predict(classifier.scores(self.features), self.seed)
        return confusion_matrix(self.labels, predicted, self.num_classes)
