"""A scikit-learn regressor that learns from a release of numbers."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from labeldp.release import Release
from labeldp.rows import as_numbers, check_order, keys_of
from labeldp.support.validate import InputError


class LabelDPRegressor(RegressorMixin, BaseEstimator):
    """Learns numbers from features and a release made by `privatize(..., bounds=(low, high))`.

    What is released of a number has that number as its mean, so that least squares on it estimates
    what least squares on the true numbers would.

    Args:
        estimator: any scikit-learn regressor that minimises squared errors; None: ridge regression
            on standardised features, with the penalty that leaving single rows out chooses.

    Attributes:
        model_: what was fitted.
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, release: Release) -> Self:
        """Returns self, fitted to a release of numbers, in the order of X.

        Raises:
            InputError: anything but a release of numbers; another number of rows; texts in X.
        """
        bounds = _bounds_of(release, X, "fit")
        inputs = as_numbers(self, X)
        _check_size(len(inputs), release)
        own = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 6, 17)))
        model = own if self.estimator is None else clone(self.estimator)
        self.model_ = model.fit(inputs, release.unbiased_values())
        self.bounds_ = bounds
        self.fitted_rows_ = keys_of(release)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Returns estimates within the bounds, float64 (m,)."""
        check_is_fitted(self)
        inputs = as_numbers(self, X, reset=False)
        return self.model_.predict(inputs).clip(*self.bounds_)

    def score(self, X: Any, release: Release) -> float:
        """Returns minus the mean squared distance to what was released; larger is better.

        It is the true error plus the variance of the noise, which no model changes.

        Raises:
            InputError: as `fit`.
        """
        _bounds_of(release, X, "score")
        found = self.predict(X)
        _check_size(len(found), release)
        return -float(np.square(found - release.unbiased_values()).mean())


def _bounds_of(release: object, X: Any, asked: str) -> tuple[float, float]:
    """Returns the bounds; refuses anything but a release of numbers, in the order of X.

    `asked` is the method that was given it.
    """
    if not isinstance(release, Release):
        raise InputError(
            f"{asked} takes a release as its second argument, got {type(release).__name__}: true "
            "labels are not for training (make a release by labeldp.privatize)"
        )
    if release.manifest.bounds is None:
        raise InputError("this is a release of classes (use LabelDPClassifier)")
    check_order(X, release)
    return release.manifest.bounds


def _check_size(num_rows: int, release: Release) -> None:
    if len(release) != num_rows:
        raise InputError(f"{num_rows} rows of features, but {len(release)} releases")
