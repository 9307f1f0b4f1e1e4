"""Scores of a run on test labels: accuracy, probabilities, and the risk of real labels."""

import csv
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.supervision import Classifier, Estimator, Fitted, predict
from labeldp.support.files import writing
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.interfaces import SELECTIONS, Epoch

PROBABILITY_SCORES = ("auc", "average_precision", "normalised_log_likelihood", "calibration_error")
"""Names of the fields in records and of the columns in tables."""
CALIBRATION_BINS = 10
SMALLEST_PROBABILITY = 1e-15
"""A probability below counts as this: the log-likelihood of a certain and wrong one is finite."""


def probability_scores(probabilities: Tensor, labels: Tensor) -> dict[str, float | None]:
    """Returns the scores of a classifier's probabilities, each None where it is not defined.

    auc: the chance that an event has a larger probability than a non-event (Hanley, McNeil 1982).
    average_precision: mean precision over the events, by falling probability.
    normalised_log_likelihood: 1 - L / L_0 with L the mean -log probability of the true class and
    L_0 that of the test set's own class shares; 0: no better than a constant, 1: certain.
    calibration_error: mean distance of the predicted and the observed share in ten bins of equally
    many examples by predicted probability (Naeini, Cooper, Hauskrecht 2015).

    Args:
        probabilities: float64 (M, K), rows sum to 1.
        labels: true, int64 (M,).

    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], dtype=torch.float64)
    >>> probability_scores(p, torch.tensor([0, 1, 1, 0]))["auc"]
    0.75
    """
    from sklearn.metrics import average_precision_score, roc_auc_score  # a second

    predicted, true = probabilities.numpy(), labels.numpy()
    classes = range(predicted.shape[1]) if predicted.shape[1] > 2 else [1]
    both = [c for c in classes if 0 < int((true == c).sum()) < len(true)]
    return {
        "auc": _mean([roc_auc_score(true == c, predicted[:, c]) for c in both]),
        "average_precision": _mean(
            [average_precision_score(true == c, predicted[:, c]) for c in both]
        ),
        "normalised_log_likelihood": _normalised_log_likelihood(predicted, true),
        "calibration_error": _mean(
            [_calibration_error(predicted[:, c], true == c) for c in classes]
        ),
    }


def _mean(numbers: list[float]) -> float | None:
    return float(np.mean(numbers)) if numbers else None


def _normalised_log_likelihood(
    predicted: NDArray[np.float64], true: NDArray[np.int64]
) -> float | None:
    shares = np.bincount(true, minlength=predicted.shape[1]) / len(true)
    entropy = -float(np.log(shares[true]).mean())
    if entropy <= 0:  # one class alone
        return None
    chosen = np.clip(predicted[np.arange(len(true)), true], SMALLEST_PROBABILITY, 1)
    return 1 + float(np.log(chosen).mean()) / entropy


def _calibration_error(predicted: NDArray[np.float64], event: NDArray[np.bool_]) -> float:
    order = np.argsort(predicted, kind="stable")
    bins = [part for part in np.array_split(order, CALIBRATION_BINS) if len(part)]
    distances = [len(b) * abs(predicted[b].mean() - event[b].mean()) for b in bins]
    return float(np.sum(distances)) / len(predicted)


def standard_error(numbers: list[float]) -> float | None:
    """Returns the standard error of the mean; None of fewer than two numbers."""
    if len(numbers) < 2:
        return None
    return float(torch.tensor(numbers, dtype=torch.float64).std() / math.sqrt(len(numbers)))


class Tally(Protocol):
    """What the trials of one run gave."""

    def add(self, fitted: Fitted, points: Tensor, seed: int) -> None:
        """Adds the estimate of one trial."""

    def merged(self, later: Self) -> Self:
        """Returns the tally over the trials of both."""

    def summary(self) -> dict[str, object]:
        """Returns the fields of the record."""


def empty_tally(bundle: DataBundle) -> Tally | None:
    """Returns what the trials on such data are to be added to; None where accuracies count."""
    if bundle.truth is not None:
        return RiskTally(bundle.truth)
    if bundle.task == "regression":
        return ErrorTally(bundle.test_labels, bundle.label_unit)
    return None


@dataclass
class RiskTally:
    """Excess risks against a known law, added up point by point; never noisy test labels.

    Excess risk: of a classifier the mean of eta* - eta_c(x), of a regression estimate that of
    (estimate - eta)^2, over test points of equal weight.

    Args:
        truth: class probabilities, float64 (M, K), or the regression function, float64 (M,).
    """

    truth: Tensor
    risks: list[float] = field(default_factory=list)
    _sum: Tensor | None = None

    def add(self, fitted: Fitted, points: Tensor, seed: int) -> None:
        """Adds the estimate of one trial."""
        if self.truth.dim() == 2:
            predicted = predict(cast(Classifier, fitted).scores(points), seed)
            chosen = self.truth.gather(1, predicted[:, None]).squeeze(1)
            self.risks.append(float((self.truth.amax(1) - chosen).mean()))
            if self._sum is None:
                self._sum = torch.zeros(self.truth.shape, dtype=torch.int32)
            self._sum[torch.arange(len(predicted)), predicted] += 1
        else:
            error = cast(Estimator, fitted).values(points) - self.truth
            self.risks.append(float(error.square().mean()))
            self._sum = error if self._sum is None else self._sum + error

    def merged(self, later: "RiskTally") -> "RiskTally":
        """Returns the tally over the trials of both."""
        assert self._sum is not None and later._sum is not None
        return RiskTally(self.truth, self.risks + later.risks, self._sum + later._sum)

    def summary(self) -> dict[str, object]:
        """Returns the fields of the record.

        Regression: `bias` is the mean squared bias, less what the variance of a mean over trials
        adds to it, and `variance` the rest of the risk. Classification: `bias` is the excess risk
        of the class that most trials choose at each point, `variance` the rest. Both None for one
        trial.
        """
        assert self._sum is not None
        risks, trials = torch.tensor(self.risks, dtype=torch.float64), len(self.risks)
        risk, bias = float(risks.mean()), None
        if trials > 1:
            if self.truth.dim() == 2:
                main = self.truth.gather(1, predict(self._sum, 0)[:, None]).squeeze(1)
                bias = float((self.truth.amax(1) - main).mean())
            else:
                squared = float((self._sum / trials).square().mean())
                bias = (trials * squared - risk) / (trials - 1)
        return {
            "excess_risk": risk,
            "excess_risk_sem": standard_error(self.risks),
            "bias": bias,
            "variance": None if bias is None else risk - bias,
            "trials": trials,
        }


@dataclass
class ErrorTally:
    """Mean squared errors on true test labels, which are not protected.

    Args:
        labels: float64 (M,).
        unit: size of one unit of them in the units that the data came in.
    """

    labels: Tensor
    unit: float
    errors: list[float] = field(default_factory=list)

    def add(self, fitted: Fitted, points: Tensor, seed: int) -> None:
        """Adds the estimate of one trial."""
        error = cast(Estimator, fitted).values(points) - self.labels
        self.errors.append(float(error.square().mean()) * self.unit**2)

    def merged(self, later: "ErrorTally") -> "ErrorTally":
        """Returns the tally over the trials of both."""
        return ErrorTally(self.labels, self.unit, self.errors + later.errors)

    def summary(self) -> dict[str, object]:
        """Returns the fields of the record.

        `test_mse`: in squared units of the data's own labels, the mean over trials;
        `test_mse_sem`: its standard error over the noise of the trials, not over test examples;
        `test_variance`: of the test labels, so that 1 - test_mse / test_variance is R^2.
        """
        without_noise = self.errors[0]  # less this, the spread is exactly 0 without noise
        return {
            "test_mse": float(torch.tensor(self.errors, dtype=torch.float64).mean()),
            "test_mse_sem": standard_error([error - without_noise for error in self.errors]),
            "test_variance": float(self.labels.var(correction=0)) * self.unit**2,
            "trials": len(self.errors),
        }


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
        labels: true, int64 (M,); real labels, float64 (M,), have no scores of classes.
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
