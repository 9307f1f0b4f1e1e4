"""What the trials of a run gave, and the record that it becomes."""

import math
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Self, cast

import torch
from torch import Tensor

from labeldp.information import information
from labeldp.mechanisms import ClassMechanism
from labeldp.mechanisms.measurement import Measurement
from labeldp.mechanisms.noise import DISTRIBUTION, DRAWS
from labeldp.store import LabelStore
from labeldp.supervision import Classifier, Fitted
from labeldp.support.validate import InputError
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell, Parts
from labeldp_bench.interfaces import Learner
from labeldp_bench.records.record import Record, new_record
from labeldp_bench.runs.evaluate import (
    PROBABILITY_SCORES,
    Evaluator,
    Tally,
    accuracy_of,
    empty_tally,
    per_class_accuracy,
    standard_error,
)
from labeldp_bench.support.device import describe_device


def share_of_unit(mechanism: Measurement, labels_per_unit: int) -> Measurement:
    """Returns the mechanism with eps / labels_per_unit: a unit with that many spends eps.

    Releases of different labels of one unit add up (sequential composition), so this holds for
    local and central mechanisms alike.

    Raises:
        InputError: the mechanism has no eps of its own to divide, or a delta.
    """
    if labels_per_unit == 1 or not mechanism.private:
        return mechanism
    known = {field.name for field in fields(mechanism) if field.init}
    if "eps" not in known or mechanism.delta:
        raise InputError(
            f"dataset.rows_per_unit={labels_per_unit} divides eps among the rows of a unit, and "
            f"{type(mechanism).__name__} has no pure eps to divide (use dataset.rows_per_unit=1)"
        )
    return replace(mechanism, eps=mechanism.eps / labels_per_unit)


def learner_of_unit(learner: Learner, labels_per_unit: int) -> Learner:
    """Returns the learner with the same share for the mechanisms that it brings itself."""
    if not is_dataclass(learner):
        return learner
    own = {field.name: getattr(learner, field.name) for field in fields(learner) if field.init}
    shares = {
        name: share_of_unit(part, labels_per_unit)
        for name, part in own.items()
        if isinstance(part, Measurement)
    }
    return replace(learner, **shares) if shares else learner


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
        distribution: the same of its distribution.
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
    distribution: int = DISTRIBUTION
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
        store: LabelStore,
        evaluator: Evaluator,
        fitted: Fitted,
        notes: dict[str, object],
        seed: int,
    ) -> Self:
        """Returns the outcome of one trial: scores of its classifier, and the store's ledger."""
        outcome = cls(notes=notes | store.unsanitised, tally=empty_tally(data))
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
        outcome.ledger, outcome.trust = [asdict(entry) for entry in store.ledger], store.trust
        outcome.eps_spent = store.eps_spent * data.labels_per_unit  # of the worst-off unit
        outcome.delta = store.delta
        outcome.draws, outcome.distribution = store.draws, store.distribution
        outcome.fresh_labels = data.fresh_labels
        agreement = store.released_agreement
        if agreement is not None:  # sums of releases agree with nobody
            outcome.agreements.append(agreement)
        if store.response_accuracy is not None:
            outcome.responses.append(store.response_accuracy)
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
        self.distribution = max(self.distribution, later.distribution)
        self.train_seconds += later.train_seconds
        self.trained_examples += later.trained_examples


def mean(numbers: list[float]) -> float | None:
    """Returns the mean; None of nothing."""
    return sum(numbers) / len(numbers) if numbers else None


def record_of(
    cell: Cell,
    parts: Parts,
    outcome: Outcome,
    data: DataBundle,
    seconds: float,
    device: torch.device,
) -> Record:
    """Returns the record of a run whose trials are all done.

    Args:
        cell: what ran.
        parts: its objects.
        outcome: of all trials.
        data: of the last trial.
        seconds: its share of the job's wall time.
        device: where it ran.
    """
    mechanism, recipe = parts.mechanism, parts.model.recipe
    of_row = share_of_unit(mechanism, data.labels_per_unit)
    rate = outcome.trained_examples / outcome.train_seconds if outcome.train_seconds else None
    return new_record(
        cell,
        dataset=data.name,
        eps=cell.eps,
        task=data.task,
        **_scores(outcome, data),
        **(dict.fromkeys(PROBABILITY_SCORES) | outcome.probability_scores),
        eps_spent=outcome.eps_spent,
        labels_per_unit=data.labels_per_unit,
        draws=outcome.draws,
        distribution=outcome.distribution,
        delta=outcome.delta,
        trust=outcome.trust,
        private=mechanism.private and math.isfinite(cell.eps),
        released_agreement=mean(outcome.agreements),
        response_accuracy=mean(outcome.responses),
        selection=recipe.selection if recipe else "last",
        precision=parts.model.precision_on(device),
        epochs=recipe.epochs if recipe else None,
        epochs_averaged=outcome.epochs_averaged,
        n_train=len(data.train_features),
        n_test=len(data.test_labels),
        data_sha256=data.sha256,
        selection_sha256=data.selection_sha256,
        extra_accuracy=outcome.extra_tests,
        best_epoch_accuracy=outcome.best_epoch_accuracy,
        mechanism_summary=of_row.summary() | _information(of_row, outcome, data),
        ledger=outcome.ledger,
        notes=outcome.notes,
        wall_seconds=round(seconds, 3),
        images_per_second=round(rate, 1) if rate else None,
        device=describe_device(device),
    )


def _information(mechanism: Measurement, outcome: Outcome, data: DataBundle) -> dict[str, object]:
    """Returns what releases tell of uniform labels: bits of each, and of all N together.

    Only of runs in which each label left its holder by itself: what a curator's answer tells of one
    label depends on all others. A mechanism with a prior is measured under the uniform one.
    """
    if outcome.trust != "local" or data.task != "classification" or not mechanism.private:
        return {}
    if not isinstance(mechanism, ClassMechanism):
        return {}
    try:
        bits = information(mechanism, data.num_classes).bits
    except InputError:  # it needs a prior
        return {}
    total = bits * len(data.train_features)
    return {"information_bits": round(bits, 6), "information_budget_bits": round(total, 1)}


def _scores(outcome: Outcome, data: DataBundle) -> dict[str, object]:
    """Returns accuracies over test labels, or the excess risk or squared error of a tally."""
    if outcome.tally is not None:
        none = {"accuracy": None, "per_class_accuracy": None, "per_class_mean": None}
        return none | outcome.tally.summary()
    assert outcome.confusion is not None, "a trial without a tally has a confusion matrix"
    classes = per_class_accuracy(outcome.confusion)
    scores = {
        "accuracy": float(torch.tensor(outcome.accuracies, dtype=torch.float64).mean()),
        "per_class_accuracy": classes,
        "per_class_mean": mean([accuracy for accuracy in classes if accuracy is not None]),
    }
    if data.bayes_accuracy is not None or len(outcome.accuracies) > 1:
        scores["accuracy_sem"] = standard_error(outcome.accuracies)
        scores |= {"bayes_accuracy": data.bayes_accuracy, "trials": len(outcome.accuracies)}
    return scores
