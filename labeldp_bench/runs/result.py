"""The record of a run: what it is, what its trials gave, what it cost."""

import math

import torch

from labeldp.mechanisms import ClassMechanism, Mechanism
from labeldp.mechanisms.information import information_bits
from labeldp_bench.data.bundle import DataBundle
from labeldp_bench.experiments.cell import Cell, Parts
from labeldp_bench.records.record import Record, new_record
from labeldp_bench.runs.evaluate import per_class_accuracy
from labeldp_bench.runs.outcome import Outcome, mean, standard_error
from labeldp_bench.runs.probability_scores import PROBABILITY_SCORES
from labeldp_bench.runs.units import share_of_unit
from labeldp_bench.support.device import describe_device


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
        eps=mechanism.eps,
        task=data.task,
        **_scores(outcome, data),
        **(dict.fromkeys(PROBABILITY_SCORES) | outcome.probability_scores),
        eps_spent=outcome.eps_spent,
        labels_per_unit=data.labels_per_unit,
        draws=outcome.draws,
        delta=outcome.delta,
        trust=outcome.trust,
        private=mechanism.private and math.isfinite(mechanism.eps),
        released_agreement=mean(outcome.agreements),
        response_accuracy=mean(outcome.responses),
        selection=recipe.selection if recipe else "last",
        precision=parts.model.precision_on(device),
        epochs=recipe.epochs if recipe else None,
        epochs_averaged=outcome.epochs_averaged,
        n_train=len(data.train_features),
        n_test=len(data.test_labels),
        data_sha256=data.sha256,
        data_written=data.written,
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


def _information(mechanism: Mechanism, outcome: Outcome, data: DataBundle) -> dict[str, object]:
    """Returns what releases tell of uniform labels: bits of each, and of all N together.

    Only of runs in which each label left its holder by itself: what a curator's answer tells of one
    label depends on all others. A mechanism with a prior is measured under the uniform one.
    """
    if outcome.trust != "local" or data.task != "classification" or not mechanism.private:
        return {}
    if not isinstance(mechanism, ClassMechanism):
        return {}
    bits = information_bits(mechanism, data.num_classes)
    if bits is None:
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
