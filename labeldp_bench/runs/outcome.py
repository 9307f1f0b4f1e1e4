"""What the trials of a run gave."""

from dataclasses import asdict, dataclass, field
from typing import Self, cast

import torch
from torch import Tensor

from labeldp.mechanisms.noise import DRAWS
from labeldp.store.vault import LabelVault
from labeldp.supervision import Classifier, Fitted
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.runs.evaluate import Evaluator, accuracy_of
from labeldp_bench.runs.risk import Tally, empty_tally


@dataclass(eq=False)
class Outcome:
    """What one trial of a run gave, or several of them together.

    Attributes:
        accuracies: one per trial; empty where a tally scores instead.
        confusion: counts, float64 (K, K), summed over trials.
        tally: excess risks or squared errors of trials.
        eps_spent: of the worst-off label; trials that release the same labels add up.
        delta: adds up in the same way.
        fresh_labels: whether each trial has labels of its own.
        draws: the largest version of the draws of what was released.
        agreements: released agreement of each trial.
        responses: response accuracy of each trial.
        probability_scores: AUC and the like, of the last trial; empty where nobody asks.
        error: why the trial failed; the rest is then empty.
    """

    accuracies: list[float] = field(default_factory=list)
    confusion: Tensor | None = None
    tally: Tally | None = None
    agreements: list[float] = field(default_factory=list)
    responses: list[float] = field(default_factory=list)
    best_epoch_accuracy: float | None = None
    epochs_averaged: int | None = None
    extra_tests: dict[str, float] = field(default_factory=dict)
    probability_scores: dict[str, float | None] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    ledger: list[dict[str, object]] = field(default_factory=list)
    trust: str = "local"
    draws: int = DRAWS
    eps_spent: float = 0.0
    delta: float = 0.0
    fresh_labels: bool = False
    train_seconds: float = 0.0
    trained_examples: int = 0
    error: Exception | None = None

    @classmethod
    def of(
        cls,
        data: DataBundle,
        vault: LabelVault,
        evaluator: Evaluator,
        fitted: Fitted,
        notes: dict[str, object],
        seed: int,
    ) -> Self:
        """Returns the outcome of one trial: scores of its classifier, and the vault's ledger."""
        outcome = cls(notes=notes | vault.unsanitised, tally=empty_tally(data))
        if outcome.tally is not None:
            outcome.tally.add(fitted, data.test_features, seed)
        else:
            classifier = cast(Classifier, fitted)  # only those of classes have no tally
            outcome.confusion = evaluator.finish(classifier)
            outcome.accuracies.append(accuracy_of(outcome.confusion))
            outcome.probability_scores = evaluator.probability_scores(classifier)
            outcome.extra_tests = evaluator.extra_accuracies(classifier)
        outcome.epochs_averaged = evaluator.epochs_averaged
        outcome.best_epoch_accuracy = evaluator.best_epoch_accuracy
        outcome.ledger, outcome.trust = [asdict(entry) for entry in vault.ledger], vault.trust
        outcome.eps_spent = vault.eps_spent * data.labels_per_unit  # of the worst-off unit
        outcome.delta = vault.delta
        outcome.draws = vault.draws
        outcome.fresh_labels = data.fresh_labels
        agreement = vault.released_agreement
        if agreement is not None:  # sums of releases agree with nobody
            outcome.agreements.append(agreement)
        if vault.response_accuracy is not None:
            outcome.responses.append(vault.response_accuracy)
        outcome.train_seconds = evaluator.train_seconds
        outcome.trained_examples = evaluator.trained_examples
        return outcome

    def add(self, later: "Outcome") -> None:
        """Takes in what a later trial of the same run gave."""
        self.error = self.error or later.error
        self.accuracies += later.accuracies
        if later.confusion is not None:  # the sum: a thousand matrices would fill the memory
            own = self.confusion
            self.confusion = later.confusion if own is None else own + later.confusion
        if later.tally is not None:
            self.tally = later.tally if self.tally is None else self.tally.merged(later.tally)
        self.agreements += later.agreements
        self.responses += later.responses
        self.best_epoch_accuracy = later.best_epoch_accuracy
        self.epochs_averaged = later.epochs_averaged
        self.extra_tests = later.extra_tests
        self.probability_scores = later.probability_scores
        self.notes |= later.notes
        self.ledger, self.trust = later.ledger, later.trust
        if later.fresh_labels:
            self.eps_spent = max(self.eps_spent, later.eps_spent)
            self.delta = max(self.delta, later.delta)
        else:  # every trial releases the same ones
            self.eps_spent += later.eps_spent
            self.delta += later.delta
        self.draws = max(self.draws, later.draws)
        self.train_seconds += later.train_seconds
        self.trained_examples += later.trained_examples


def mean(numbers: list[float]) -> float | None:
    """Returns the mean; None of nothing."""
    return sum(numbers) / len(numbers) if numbers else None


def standard_error(numbers: list[float]) -> float | None:
    """Returns the standard error of the mean; None of fewer than two numbers."""
    if len(numbers) < 2:
        return None
    return float(torch.tensor(numbers, dtype=torch.float64).std() / len(numbers) ** 0.5)
