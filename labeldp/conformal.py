"""Sets of classes that hold the true one with a given probability, calibrated on a release."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.estimates import check_classes_released
from labeldp.release import Release
from labeldp.rows import check_order, refuse_fitted_rows
from labeldp.support.validate import InputError, check_number
from labeldp.unbiased import unbiased_labels


class PredictionSets:
    """Predicts all classes that are likely enough, instead of one.

    A class is in the set if its probability is at least 1 - threshold. With true labels the
    threshold would be the (N + 1) * coverage / N quantile of 1 - p(true class) over rows that were
    not used in the fit. Here that distribution comes from the unbiased estimates of the labels.
    Noise lets it wiggle, so the threshold is the last place where it rises above the target, which
    makes sets too large rather than too small.

    Source: split conformal prediction, Vovk et al. (2005); with labels of known noise: Sesia, Wang,
    Tong (2023), arXiv:2309.05092.

    Args:
        model: fitted, with `predict_proba` and the release's classes as `classes_`.
        X: features of rows that were not used in the fit, in the order of the release.
        release: of these rows.
        coverage: how often the set is to hold the true class, in (0, 1).

    Raises:
        InputError: rows were used in the fit, or do not fit to the release.
    """

    def __init__(self, model: Any, X: Any, release: Release, coverage: float = 0.9) -> None:
        check_number("coverage", coverage, above=0, below=1)
        check_classes_released(release)
        refuse_fitted_rows(model, release)
        check_order(X, release)
        self.model, self.coverage = model, coverage
        self.classes_ = np.asarray(model.classes_)
        if self.classes_.tolist() != release.classes:
            raise InputError("the model has other classes, or another order, than the release")
        scores = 1 - np.asarray(model.predict_proba(X))
        if scores.shape != release.shape:
            raise InputError(f"{len(scores)} rows of features, but {len(release)} releases")
        self.threshold = threshold(scores, unbiased_labels(release), coverage)

    def predict(self, X: Any) -> NDArray[np.bool_]:
        """Returns which classes are in each row's set, bool (m, K), columns as `classes_`."""
        return 1 - np.asarray(self.model.predict_proba(X)) <= self.threshold


def threshold(scores: NDArray[np.float64], labels: NDArray[np.float64], coverage: float) -> float:
    """Returns the last score below which the estimated share of true labels is too small.

    Args:
        scores: (N, K), small for likely classes.
        labels: unbiased estimates of one-hot labels, (N, K).
        coverage: in (0, 1).
    """
    size, num_classes = scores.shape
    labels = labels + (1 - labels.sum(1, keepdims=True)) / num_classes  # still unbiased
    order = np.argsort(scores, axis=None, kind="stable")
    share = labels.ravel()[order].cumsum() / size
    below = np.flatnonzero(share < min(1.0, coverage * (size + 1) / size) - 1e-12)
    ordered = scores.ravel()[order]
    if not len(below):
        return float(ordered[0])
    last = below[-1] + 1
    return float(ordered[last]) if last < len(ordered) else 1.0
