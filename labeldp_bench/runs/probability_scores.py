"""Scores of predicted probabilities, for rare classes, where accuracy says little.

With two classes all but the log-likelihood are about the last one, the event; with more they are
means over the classes that have test examples, each against the rest.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

PROBABILITY_SCORES = ("auc", "average_precision", "normalised_log_likelihood", "calibration_error")
"""Names of the fields in records and of the columns in tables."""
BINS = 10
SMALLEST = 1e-15
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
    chosen = np.clip(predicted[np.arange(len(true)), true], SMALLEST, 1)
    return 1 + float(np.log(chosen).mean()) / entropy


def _calibration_error(predicted: NDArray[np.float64], event: NDArray[np.bool_]) -> float:
    order = np.argsort(predicted, kind="stable")
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    distances = [len(b) * abs(predicted[b].mean() - event[b].mean()) for b in bins]
    return float(np.sum(distances)) / len(predicted)
